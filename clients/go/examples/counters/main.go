// Counters tells every second what has been counted meanwhile.
//
//	go run ./examples/counters [NAME...]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"quiver"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	router, err := quiver.Dial(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	before := map[string]uint64{}
	for reading, err := range router.WatchCounters(ctx, time.Second, os.Args[1:]...) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, v := range reading.Values {
			what := fmt.Sprint(v.Name, " ", v.Of, v.OfNames)
			if more := v.Value - before[what]; more > 0 {
				fmt.Println(reading.Time.Format(time.TimeOnly), what, more)
			}
			before[what] = v.Value
		}
	}
}
