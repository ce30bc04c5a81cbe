//! What stages need and leave ([`graph::stage::Stage`]): with what header a packet begins, and whether that was looked at.

use std::marker::PhantomData;

/// An Ethernet header.
#[derive(Clone, Copy)]
pub enum Frame {}

/// A label stack entry.
#[derive(Clone, Copy)]
pub enum Labelled {}

/// An IPv4 header.
#[derive(Clone, Copy)]
pub enum Ip4 {}

/// An IPv6 header.
#[derive(Clone, Copy)]
pub enum Ip6 {}

/// Some header of whatever EtherType.
#[derive(Clone, Copy)]
pub enum Any {}

/// What begins so is as the node of that protocol wants it: its length is that of the packet. Of IPv4 the destination, and of labels the
/// first one, stands in [`graph::Desc::aux`].
#[derive(Clone, Copy)]
pub struct Checked<P>(PhantomData<P>);
