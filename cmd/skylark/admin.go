package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"skylark/admin"
)

// runAdmin does what mqadmin does not have.
func runAdmin(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := admin.Main(ctx, args, os.Stdout, os.Stderr)
	if errors.Is(err, admin.ErrUsage) {
		return fmt.Errorf("%w: %s", errUsage, strings.TrimPrefix(err.Error(), admin.ErrUsage.Error()+": "))
	}
	return err
}
