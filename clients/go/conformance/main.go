// Conformance carries out the cases of clients/conformance.json through this client; clients/conformance.md says how.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"quiver"
)

type document struct {
	Lines []string          `json:"lines"`
	Of    string            `json:"of"`
	Swap  map[string]string `json:"swap"`
	Add   []string          `json:"add"`
}

type testCase struct {
	Name  string           `json:"name"`
	Needs string           `json:"needs"`
	Steps []map[string]any `json:"steps"`
}

type runner struct {
	client    *quiver.Client
	documents map[string]document
	input     *bufio.Reader
	kept      map[string]any
	programs  map[string]*program
	watches   map[string]*watch
	hearings  map[string]*hearing
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance SOCKET CASES [NAME...]")
		os.Exit(2)
	}
	failed, err := run(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

func run(socket, file string, names []string) (failed bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	var all struct {
		Documents map[string]document `json:"documents"`
		Cases     []testCase          `json:"cases"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	client, err := quiver.Dial(context.Background(), socket)
	if err != nil {
		return false, err
	}
	defer client.Close()
	r := &runner{client: client, documents: all.Documents, input: bufio.NewReader(os.Stdin)}
	for _, c := range all.Cases {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		if !slices.Contains(services, c.Needs) {
			fmt.Printf("skip %s: no service %s\n", c.Name, c.Needs)
			continue
		}
		if err := r.carryOut(c); err != nil {
			failed = true
			fmt.Printf("FAIL %s: %s\n", c.Name, strings.ReplaceAll(err.Error(), "\n", " | "))
		} else {
			fmt.Println("ok", c.Name)
		}
	}
	return failed, nil
}

// What the client has calls for.
var services = []string{"System", "Commands", "Configuration", "Counters", "Events", "Packets", "Routes"}

func (r *runner) carryOut(c testCase) error {
	r.kept, r.programs, r.watches = map[string]any{}, map[string]*program{}, map[string]*watch{}
	r.hearings = map[string]*hearing{}
	defer func() {
		for _, h := range r.hearings {
			h.close()
		}
		for _, w := range r.watches {
			w.close()
		}
		for _, p := range r.programs {
			p.Close()
		}
	}()
	for i, step := range c.Steps {
		var until time.Time
		if within, ok := step["within"].(float64); ok {
			until = time.Now().Add(time.Duration(within * float64(time.Second)))
		}
		for {
			err := r.step(step)
			if err == nil {
				break
			}
			if !time.Now().Before(until) {
				return fmt.Errorf("step %d (%v): %w", i+1, step["call"], err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// step makes a call and compares.
func (r *runner) step(step map[string]any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if deadline, ok := step["deadline"].(float64); ok {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(deadline*float64(time.Second)))
		defer cancel()
	}
	name, _ := step["call"].(string)
	call, ok := calls[name]
	if !ok {
		return fmt.Errorf("there is no such call")
	}
	result, err := call(r, ctx, r.arguments(step))
	if fails, ok := step["fails"]; ok {
		var e *quiver.Error
		if err == nil {
			return fmt.Errorf("it has not failed, but gives %s", show(result))
		}
		if !errors.As(err, &e) {
			return fmt.Errorf("no error of the client's: %w", err)
		}
		return r.holds("error", fails, failureValue(e))
	}
	if err != nil {
		return err
	}
	if gives, ok := step["gives"]; ok {
		if err := r.holds("result", gives, result); err != nil {
			return err
		}
	}
	if keep, ok := step["keep"].(map[string]any); ok {
		fields, _ := result.(map[string]any)
		for as, field := range keep {
			r.kept[as] = fields[field.(string)]
		}
	}
	return nil
}

// arguments are those of a step, with what was kept filled in.
func (r *runner) arguments(step map[string]any) arguments {
	a := arguments{}
	for name, value := range step {
		if m, ok := value.(map[string]any); ok {
			if kept, ok := m["$kept"].(string); ok {
				value = r.kept[kept]
			}
		}
		a[name] = value
	}
	if name, ok := a["document"].(string); ok {
		a["document"] = r.text(name)
	}
	return a
}

// text is that of a document.
func (r *runner) text(name string) string {
	d, text := r.documents[name], ""
	if d.Of != "" {
		text = r.text(d.Of)
	}
	for from, to := range d.Swap {
		text = strings.Replace(text, from, to, 1)
	}
	for _, line := range append(d.Lines, d.Add...) {
		text += line + "\n"
	}
	return text
}

// router has the tests kill or start it.
func (r *runner) router(what string) error {
	fmt.Println("router", what)
	line, err := r.input.ReadString('\n')
	if strings.TrimSpace(line) != "done" {
		return fmt.Errorf("the tests answer %q: %w", line, err)
	}
	return nil
}
