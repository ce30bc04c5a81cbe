//! Numbers of Linux's interfaces (`sockios.h`, `if_packet.h`, `if_tun.h`, `rtnetlink.h`).

#![allow(missing_docs)]

pub const SIOCGIFFLAGS: u64 = 0x8913;
pub const SIOCSIFFLAGS: u64 = 0x8914;
pub const SIOCGIFMTU: u64 = 0x8921;
pub const SIOCSIFMTU: u64 = 0x8922;
pub const SIOCSIFHWADDR: u64 = 0x8924;
pub const SIOCGIFHWADDR: u64 = 0x8927;
pub const SIOCGIFINDEX: u64 = 0x8933;
pub const SIOCSIFTXQLEN: u64 = 0x8943;
pub const SIOCBRADDBR: u64 = 0x89a0;
pub const SIOCBRDELBR: u64 = 0x89a1;
pub const SIOCBRADDIF: u64 = 0x89a2;
pub const SIOCBRDELIF: u64 = 0x89a3;

pub const TUNSETIFF: u64 = 0x4004_54ca;
pub const TUNSETPERSIST: u64 = 0x4004_54cb;
pub const TUNGETIFF: u64 = 0x8004_54d2;
pub const TUNSETOFFLOAD: u64 = 0x4004_54d0;
pub const TUNSETVNETHDRSZ: u64 = 0x4004_54d8;
pub const TUNSETCARRIER: u64 = 0x4004_54e2;
pub const TUNGETDEVNETNS: u64 = 0x54e3;
pub const IFF_TAP: u16 = 0x0002;
pub const IFF_MULTI_QUEUE: u16 = 0x0100;
pub const IFF_PERSIST: u16 = 0x0800;
pub const IFF_NO_PI: u16 = 0x1000;
pub const IFF_VNET_HDR: u16 = 0x4000;
pub const TUN_F_CSUM: u64 = 0x01;
pub const TUN_F_TSO4: u64 = 0x02;
pub const TUN_F_TSO6: u64 = 0x04;
pub const TUN_F_USO4: u64 = 0x20;
pub const TUN_F_USO6: u64 = 0x40;

pub const SIOCETHTOOL: u64 = 0x8946;
pub const ETHTOOL_GLINK: u32 = 0x0a;
pub const ETHTOOL_GFLAGS: u32 = 0x25;
pub const ETHTOOL_SFLAGS: u32 = 0x26;
pub const ETHTOOL_GGRO: u32 = 0x2b;
pub const ETHTOOL_SGRO: u32 = 0x2c;
pub const ETHTOOL_GCHANNELS: u32 = 0x3c;
pub const ETHTOOL_SCHANNELS: u32 = 0x3d;
pub const ETH_FLAG_RXVLAN: u32 = 1 << 8;

pub const SO_ATTACH_BPF: i32 = 50;
pub const SOL_PACKET: i32 = 263;
pub const PACKET_ADD_MEMBERSHIP: i32 = 1;
pub const PACKET_DROP_MEMBERSHIP: i32 = 2;
pub const PACKET_RX_RING: i32 = 5;
pub const PACKET_STATISTICS: i32 = 6;
pub const PACKET_COPY_THRESH: i32 = 7;
pub const PACKET_VERSION: i32 = 10;
pub const PACKET_VNET_HDR: i32 = 15;
pub const PACKET_FANOUT: i32 = 18;
pub const PACKET_QDISC_BYPASS: i32 = 20;
pub const PACKET_IGNORE_OUTGOING: i32 = 23;
pub const PACKET_FANOUT_HASH: u32 = 0;
pub const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: u32 = 0x4000;
pub const PACKET_FANOUT_FLAG_UNIQUEID: u32 = 0x2000;
pub const PACKET_MR_MULTICAST: u16 = 0;
pub const PACKET_MR_PROMISC: u16 = 1;
pub const PACKET_MR_ALLMULTI: u16 = 2;
pub const TPACKET_V2: i32 = 1;
pub const TPACKET_V3: i32 = 2;
pub const TP_STATUS_USER: u32 = 1;
pub const TP_STATUS_COPY: u32 = 1 << 1;
pub const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
pub const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
pub const ETH_P_ALL: u16 = 3;

pub const RTMGRP_LINK: u32 = 1;
pub const RTMGRP_IPV4_IFADDR: u32 = 0x10;
pub const RTMGRP_IPV6_IFADDR: u32 = 0x100;
