package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"skylark/bench"
	"skylark/bench/suite"
)

// runBench puts load on a broker, or on several in turns. SIGINT and SIGTERM end it early, with a report.
func runBench(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if len(args) > 0 && args[0] == "suite" {
		err = suite.Main(ctx, args[1:], os.Stdout, os.Stderr)
	} else {
		err = bench.Main(ctx, args, os.Stdout, os.Stderr)
	}
	if errors.Is(err, bench.ErrUsage) {
		return fmt.Errorf("%w: %s", errUsage, strings.TrimPrefix(err.Error(), bench.ErrUsage.Error()+": "))
	}
	return err
}
