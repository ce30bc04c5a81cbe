// First looks at a router, and sets a route: first SOCKET ADDRESS INTERFACE.
package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"

	"quiver"
)

func main() {
	ctx, prefix := context.Background(), netip.MustParsePrefix("203.0.113.0/24")
	router := must(quiver.Dial(ctx, os.Args[1]))
	fmt.Print(must(router.Command(ctx, "show version")))
	program := must(router.Program(ctx, "example"))
	via := must(program.Via(quiver.NextHop{Address: netip.MustParseAddr(os.Args[2]), Interface: os.Args[3]}))
	must(0, program.Set(ctx, prefix, via))
	must(0, program.Wait(ctx))
	for route, err := range router.Routes(ctx, quiver.RouteFilter{Prefix: prefix}) {
		fmt.Println(must(route, err).Prefix, route.Source, route.NextHops)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
