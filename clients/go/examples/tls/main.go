// Says which router it is at the other end of a network, and what the caller may do there: tls HOST:PORT CERTIFICATE KEY CA [SERVER-NAME].
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"quiver"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 5 {
		log.Fatal("tls HOST:PORT CERTIFICATE KEY CA [SERVER-NAME]")
	}
	ctx, files := context.Background(), quiver.TLS{Certificate: os.Args[2], Key: os.Args[3], CA: os.Args[4]}
	if len(os.Args) > 5 {
		files.ServerName = os.Args[5]
	}
	router, err := quiver.Dial(ctx, os.Args[1], files)
	if err != nil {
		log.Fatal(err)
	}
	defer router.Close()
	system, err := router.System(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(system.Version, system.Certificate, system.Role)
}
