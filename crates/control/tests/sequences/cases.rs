//! Sequences that once made states which did not load. Behind `!` stands what the answer of a refused line says.

/// Each with its name; all begin with [`super::lines::START`].
pub const CASES: &[(&str, &str)] = &[
    (
        "a TAP with addresses and sub-interfaces",
        "create tap id 0 host-if-name {pid}a host-mtu-size 1400
         set interface ip address tap0 10.0.0.1/24
         create sub-interfaces tap0 100
         set interface ip address tap0.100 10.1.0.1/24
         set interface mtu packet 9000 tap0
         create tap id 1 host-if-name Upper_1 ! cannot name its Linux side",
    ),
    (
        "MTUs that differ in a bridge domain, changed before and after",
        "set interface mtu packet 1500 p0
         set interface l2 bridge p0 1
         set interface l2 bridge p1 1
         set interface l2 bridge loop0 1 bvi
         set interface mtu packet 1400 loop0
         set interface mtu packet 2000 p0",
    ),
    (
        "MTUs that differ in a cross-connect, changed before and after",
        "set interface mtu packet 1500 p0
         set interface l2 xconnect p0 p1
         set interface mtu packet 2000 p1
         set interface l2 xconnect p1 p0
         set interface mtu packet 2000 p0
         set interface mtu packet 3000 p0",
    ),
    (
        "prefixes in one another on one interface",
        "set interface ip address p0 10.0.0.1/24
         set interface ip address p0 10.0.0.9/32 ! of another prefix
         set interface ip address p0 10.0.0.255/16 ! of another prefix
         set interface ip address p0 10.0.0.5/24
         set interface ip address p0 2001:db8::9/128
         set interface ip address p0 2001:db8::1/64 ! of another prefix",
    ),
    (
        "a next hop, a static neighbor or a proxied address that would become an own one",
        "set interface ip address p0 10.0.0.1/24
         ip route add 20.0.0.0/8 via 10.0.0.5
         ip route add 21.0.0.0/8 via 10.0.0.6 p0
         ip neighbor p0 10.0.0.7 02:00:00:00:00:01 static
         set interface ip address p0 10.0.0.5/24 ! is the next hop of routes
         set interface ip address p0 10.0.0.6/24 ! is the next hop of routes
         set interface ip address p0 10.0.0.7/24 ! is a static neighbor
         ip route add 22.0.0.0/8 via fe80::5 p0
         set interface ip address p0 fe80::5/64 ! is the next hop of routes
         set interface ip address p0 2001:db8::1/64
         ip6 nd proxy add p0 2001:db8::7
         set interface ip address p0 2001:db8::7/64 ! answered for
         ip route del 20.0.0.0/8
         set interface ip address p0 10.0.0.5/24",
    ),
    (
        "a lender, or one that is unnumbered, in a bridge domain",
        "set interface unnumbered p0 use p1
         set interface l2 bridge p1 1 ! lends its addresses to p0
         set interface l2 bridge p0 1 ! is unnumbered
         set interface unnumbered del p0
         set interface l2 bridge p1 1
         set interface unnumbered p0 use p1 ! is in bridge domain 1
         set interface unnumbered p1 use p0 ! is in bridge domain 1",
    ),
    (
        "a tunnel of frames",
        "set interface ip address p0 10.0.0.1/24
         mpls tunnel add l2-only instance 0 via 10.0.0.2 p0 out-labels 100
         mpls tunnel add instance 1 via 10.0.0.2 p0 out-labels 101
         set interface promiscuous on mpls-tunnel0
         set interface promiscuous on mpls-tunnel1 ! make it with l2-only
         create sub-interfaces mpls-tunnel0 7
         set interface ip address mpls-tunnel0 10.5.0.1/24
         ip route add 30.0.0.0/8 via mpls-tunnel0
         ip route add 31.0.0.0/8 via 10.5.0.2 mpls-tunnel0
         ip route add 32.0.0.0/8 via mpls-tunnel1
         set interface l2 xconnect mpls-tunnel0.7 p1",
    ),
    (
        "capture files",
        "create pcap-interface name p2 rate 5 ! neither `read` nor `write` is given
         create pcap-interface name p2 write {dir}/a.pcap rate 5 ! there is no `read`
         create pcap-interface name p2 read {dir}/a.pcap write {dir}/a.pcap ! one file
         create pcap-interface name loop3 write {dir}/a.pcap ! name of another kind
         create pcap-interface name p2 read {dir}/a.pcap write {dir}/b.pcap overwrite rate 5 repeat",
    ),
    (
        "next hops that are no neighbors",
        "set interface ip address p0 10.0.0.1/24
         set interface ip address p0 2001:db8::1/64
         ip route add 20.0.0.0/8 via 127.0.0.1 ! is not the address of a neighbor
         ip route add 20.0.0.0/8 via 255.255.255.255 p0 ! is not the address of a neighbor
         ip route add 2001:db8:f::/48 via ::1 ! is not the address of a neighbor
         mpls local-label add 100 eos via 127.0.0.1 out-labels 200 ! is not the address of a neighbor
         mpls local-label add 100 eos via ::1 p0 out-labels 200 ! is not the address of a neighbor",
    ),
    (
        "descriptions",
        "set interface description p0 {long}
         set interface description p1 {longer} ! has 256 characters
         create bridge-domain 2 bd-tag {long}
         create bridge-domain 3 bd-tag {longer} ! has 256 characters
         create bridge-domain 3 bd-tag \"it's\" ! has no quotes",
    ),
    (
        "an ND proxy whose interface would lose its address",
        "set interface ip address p0 2001:db8::1/64
         set interface unnumbered p1 use p0
         ip6 nd proxy add p1 2001:db8:9::1
         set interface ip address del p0 2001:db8::1/64 ! is behind p1 and answered for
         set interface unnumbered del p1 ! is behind p1 and answered for
         set interface ip address p0 2001:db8::5/64
         set interface ip address del p0 2001:db8::1/64",
    ),
    (
        "layer 3 on what joins layer 2",
        "set urpf ip4 rx strict p0
         set interface l2 bridge p0 1 ! checks sources: undo that first (set urpf ip4 off p0)
         set urpf ip4 off p0
         set interface ip table p0 10
         set interface l2 bridge p0 1 ! is in IPv4 table 10
         set interface ip table p0 0
         ip route add 20.0.0.0/8 via p0
         set interface l2 bridge p0 1 ! 1 route
         ip route del 20.0.0.0/8
         set interface l2 bridge p0 1
         set urpf ip4 rx strict p0 ! is in bridge domain 1
         set interface ip table p0 10 ! is in bridge domain 1
         ip route add 20.0.0.0/8 via p0 ! is in bridge domain 1
         ip neighbor p0 fe80::9 02:00:00:00:00:01 static ! is in bridge domain 1
         set interface mpls p0 enable",
    ),
    (
        "MTUs below what is told and lent",
        "set interface ip address p0 2001:db8::1/64
         ip6 nd p0 no ra-suppress
         ip6 nd p0 ra-mtu 1400
         set interface mtu packet 1300 p0 ! router advertisements
         set interface unnumbered p1 use p0
         set interface mtu packet 600 p1 ! too small for IPv6
         set interface unnumbered p1 use loop0
         set interface mtu packet 600 p1
         set interface ip address loop0 2001:db8:5::1/64 ! has MTU 600",
    ),
    (
        "addresses that make nobody's of the next hop of a tunnel",
        "mpls tunnel add instance 0 via 10.7.0.255 out-labels 33
         mpls tunnel add instance 1 via 10.8.0.0 p0 out-labels 34
         set interface ip address p0 10.7.0.1/24 ! 10.7.0.255, which 10.7.0.1/24 makes nobody's
         set interface ip address p0 10.8.0.1/24 ! 10.8.0.0, which 10.8.0.1/24 makes nobody's
         set interface ip address p1 10.8.0.1/24
         mpls tunnel del mpls-tunnel0
         set interface ip address p0 10.7.0.1/24",
    ),
    (
        "a host of one table that is nobody's in another",
        "set interface ip table p1 10
         set interface ip address p1 10.7.0.1/16
         ip route add 20.0.0.0/8 table 10 via 10.7.0.255
         ip route add 21.0.0.0/8 table 10 via 10.7.1.255 p1
         set interface ip address p0 10.7.0.2/24
         set interface ip address loop0 10.7.1.2/24",
    ),
    (
        "a sub-interface that is up under one that is down, and the order of interfaces",
        "create sub-interfaces p0 100
         create sub-interfaces p1 100
         create sub-interfaces p0 7
         set interface state p0.100 up
         set interface state p1 up
         create loopback interface instance 9
         set interface state loop9 up
         create pcap-interface name p2 write {dir}/c.pcap overwrite
         set interface ip address p0.100 10.0.0.1/24
         ip neighbor p0.100 10.0.0.2 02:00:00:00:00:01 static
         set interface ip address loop9 10.9.0.1/32
         set interface ip address p2 10.2.0.1/24
         ip neighbor p2 10.2.0.2 02:00:00:00:00:01 static",
    ),
];
