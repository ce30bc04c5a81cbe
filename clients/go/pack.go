package quiver

import (
	"fmt"
	"net/netip"
)

// pack appends a prefix as the schema packs it: its length in bits, then all bytes of its address.
func pack(to []byte, prefix netip.Prefix) []byte {
	to = append(to, byte(prefix.Bits()))
	if prefix.Addr().Is4() {
		a := prefix.Addr().As4()
		return append(to, a[:]...)
	}
	a := prefix.Addr().As16()
	return append(to, a[:]...)
}

// packedLen is how many bytes a packed prefix has.
func packedLen(ipv6 bool) int {
	if ipv6 {
		return 17
	}
	return 5
}

// unpack takes the first of packed prefixes, of which there is at least one.
func unpack(from []byte, ipv6 bool) (netip.Prefix, []byte) {
	n := packedLen(ipv6)
	var a netip.Addr
	if ipv6 {
		a = netip.AddrFrom16([16]byte(from[1:n]))
	} else {
		a = netip.AddrFrom4([4]byte(from[1:n]))
	}
	return netip.PrefixFrom(a, int(from[0])), from[n:]
}

// whole tells how many packed prefixes there are.
func whole(packed []byte, ipv6 bool) (int, error) {
	n := packedLen(ipv6)
	if len(packed)%n != 0 {
		return 0, fmt.Errorf("quiver: the router's answer has %d bytes of prefixes, no multiple of %d", len(packed), n)
	}
	return len(packed) / n, nil
}
