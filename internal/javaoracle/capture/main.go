package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "capture:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: capture record|list|export [flags]; see the package comment")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "record":
		out := flags.String("out", "frames.jsonl", "file the frames are appended to")
		labelFile := flags.String("label-file", "", "file that names the client of new connections")
		var routes routeFlag
		flags.Var(&routes, "route", "NAME=LISTEN,TARGET; may be repeated")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return recordTraffic(ctx, *out, *labelFile, routes)
	case "list":
		in := flags.String("in", "frames.jsonl", "recordings to read, separated by commas")
		label := flags.String("label", ".", "regular expression on the label")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return list(strings.Split(*in, ","), *label)
	case "export":
		in := flags.String("in", "frames.jsonl", "recordings to read, separated by commas")
		wire := flags.String("wire", "", "directory for the frames, one subdirectory per label")
		records := flags.String("records", "", "directory for stored messages found in pull answers")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return export(strings.Split(*in, ","), *wire, *records)
	}
	return errUsage
}

// route is one listening address of the proxy and where it leads.
type route struct {
	name, listen, target string
}

// routeFlag collects repeated -route flags.
type routeFlag []route

func (r *routeFlag) String() string { return fmt.Sprint(*r) }

func (r *routeFlag) Set(text string) error {
	name, rest, ok := strings.Cut(text, "=")
	listen, target, ok2 := strings.Cut(rest, ",")
	if !ok || !ok2 {
		return fmt.Errorf("route %q is not NAME=LISTEN,TARGET", text)
	}
	*r = append(*r, route{name, listen, target})
	return nil
}
