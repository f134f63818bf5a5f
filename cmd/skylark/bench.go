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
)

// runBench puts load on a broker. SIGINT and SIGTERM end it early, with a report.
func runBench(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := bench.Main(ctx, args, os.Stdout, os.Stderr)
	if errors.Is(err, bench.ErrUsage) {
		return fmt.Errorf("%w: %s", errUsage, strings.TrimPrefix(err.Error(), bench.ErrUsage.Error()+": "))
	}
	return err
}
