// Routes sets many routes, reads them back and compares, deletes them, and tells how long each took.
//
//	go run ./examples/routes -count 1000000 -via 10.0.1.2 -interface left
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"time"

	"quiver"
)

func main() {
	log.SetFlags(0)
	count := flag.Int("count", 100_000, "how many routes")
	via := flag.String("via", "", "the next hop's address; without one the routes drop")
	device := flag.String("interface", "", "the next hop's interface")
	ipv6 := flag.Bool("6", false, "IPv6 routes")
	flag.Parse()
	if err := load(context.Background(), *count, *via, *device, *ipv6); err != nil {
		log.Fatal(err)
	}
}

func load(ctx context.Context, count int, via, device string, ipv6 bool) error {
	router, err := quiver.Dial(ctx, "")
	if err != nil {
		return err
	}
	defer router.Close()
	program, err := router.Program(ctx, "example-routes", quiver.Grace(0))
	if err != nil {
		return err
	}
	defer program.Close()
	to, err := program.Action(quiver.Drop)
	if via != "" {
		var address netip.Addr
		if address, err = netip.ParseAddr(via); err == nil {
			to, err = program.Via(quiver.NextHop{Address: address, Interface: device})
		}
	}
	if err != nil {
		return err
	}

	began := time.Now()
	for i := range count {
		if err := program.Set(ctx, nth(i, ipv6), to); err != nil {
			return err
		}
	}
	if err := program.Wait(ctx); err != nil {
		return err
	}
	tell("set", count, began)

	began = time.Now()
	read := 0
	for route, err := range router.Routes(ctx, quiver.RouteFilter{Source: program.Source()}) {
		if err != nil {
			return err
		}
		if route.Prefix != nth(read, ipv6) {
			return fmt.Errorf("route %d is %v, not %v", read, route.Prefix, nth(read, ipv6))
		}
		read++
	}
	if read != count {
		return fmt.Errorf("%d routes are there, not %d", read, count)
	}
	tell("read back", count, began)

	began = time.Now()
	for i := range count {
		if err := program.Delete(ctx, nth(i, ipv6)); err != nil {
			return err
		}
	}
	if err := program.Wait(ctx); err != nil {
		return err
	}
	tell("deleted", count, began)
	return nil
}

// nth is a prefix of its own for each number: 20.0.0.0/24 and those behind it, or 2001:db8::/64.
func nth(i int, ipv6 bool) netip.Prefix {
	if ipv6 {
		a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
		binary.BigEndian.PutUint32(a[4:], uint32(i))
		return netip.PrefixFrom(netip.AddrFrom16(a), 64)
	}
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 20<<24+uint32(i)<<8)
	return netip.PrefixFrom(netip.AddrFrom4(a), 24)
}

func tell(what string, count int, began time.Time) {
	took := time.Since(began)
	fmt.Printf("%s %d routes in %v: %.0f a second\n", what, count, took.Round(time.Millisecond), float64(count)/took.Seconds())
}
