//! The messages of control connections, over Unix sockets that keep them apart; descriptors come along.

use super::message::LEN;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// What the sockets are.
pub const KIND: SocketType = SocketType::SEQPACKET;

/// Sends a message, with a descriptor where one belongs to it.
pub fn send(fd: &OwnedFd, bytes: &[u8; LEN], with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    let with: Vec<BorrowedFd<'_>> = with.into_iter().collect();
    if !with.is_empty() {
        along.push(SendAncillaryMessage::ScmRights(&with));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(fd, &[IoSlice::new(bytes)], &mut along, flags)?;
    Ok(())
}

/// Receives a message: its bytes, none at the end, and the descriptor that came along. Of several the first counts.
pub fn receive<'b>(fd: &OwnedFd, bytes: &'b mut [u8; LEN + 1]) -> io::Result<(&'b [u8], Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(fd, &mut [IoSliceMut::new(bytes)], &mut along, flags)?;
    let rights = along.drain().filter_map(|m| match m {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let all: Vec<OwnedFd> = rights.flatten().collect();
    Ok((&bytes[..got.bytes.min(LEN + 1)], all.into_iter().next()))
}
