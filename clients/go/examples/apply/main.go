// Apply brings a router to a document, and goes back by itself when the router cannot be reached afterwards.
//
//	go run ./examples/apply FILE
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"quiver"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: apply FILE")
	}
	if err := apply(context.Background(), os.Args[1]); err != nil {
		var refused *quiver.Error
		if errors.As(err, &refused) && errors.Is(err, quiver.ErrDenied) {
			log.Fatalf("%v: ask for the role %v", err, refused.RoleNeeded())
		}
		log.Fatal(err)
	}
}

func apply(ctx context.Context, file string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	router, err := quiver.Dial(ctx, "")
	if err != nil {
		return err
	}
	defer router.Close()

	checked, err := router.Check(ctx, string(document))
	if err != nil {
		return err
	}
	if !checked.Ok {
		return fmt.Errorf("%s: %s", file, checked.Text)
	}
	plan, err := router.Plan(ctx, string(document), false)
	if err != nil {
		return err
	}
	for _, step := range plan.Steps {
		fmt.Println(step.Text, step.Touches)
	}
	for _, warning := range plan.Warnings {
		fmt.Println("warning:", warning)
	}
	applied, err := router.Apply(ctx, string(document), quiver.ApplyOptions{Confirm: time.Minute, Comment: file})
	if err != nil || applied.ConfirmSeconds == 0 {
		return err
	}
	// Whoever cannot say this any more has the configuration back in a minute.
	number, err := router.Confirm(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d steps, kept as %d\n", applied.Steps, number)
	return nil
}
