// Watch prints routes as they come and go.
//
//	go run ./examples/watch [PREFIX]
package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"

	"quiver"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var filter quiver.RouteFilter
	if len(os.Args) > 1 {
		prefix, err := netip.ParsePrefix(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		filter.Prefix = prefix
	}
	router, err := quiver.Dial(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range router.Watch(ctx, filter) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		switch e := event.(type) {
		case quiver.RouteState:
			if len(e.Routes) == 0 {
				fmt.Println(e.Prefix, "has gone")
			}
			for _, r := range e.Routes {
				fmt.Println(r.Prefix, r.Source, r.Action, r.NextHops)
			}
		case quiver.RouteMark:
			fmt.Println("these are all")
		case quiver.RouteRestart:
			fmt.Println("changes are lost, and all routes follow")
		}
	}
}
