package main

import (
	"context"
	"errors"
	"log/slog"

	"skylark/config"
	"skylark/controller"
)

// runController serves as one controller of a group. It ends with an error when its disk fails, so that whoever watches
// the process starts it anew.
func runController(args []string) error {
	f, set := newFlags("controller"), config.NewControllerSet()
	log, done, err := f.load(args, set)
	if err != nil || done {
		return err
	}
	end, err := f.startProcess(log, 0)
	if err != nil {
		return err
	}
	defer end()
	c, err := startController(set, f.file, log)
	if err != nil {
		return err
	}
	return f.serveUntil(log, c.Failed(), func(ctx context.Context) error { return errors.Join(c.Err(), c.Close(ctx)) })
}

func startController(set *config.Set, file string, log *slog.Logger) (*controller.Controller, error) {
	c, err := controller.New(controller.Options{Config: set, ConfigFile: file, NewEngine: newEngine(set, log), Log: log})
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, stopNow(c.Close))
	}
	return c, nil
}

// stopNow stops what has just been started.
func stopNow(stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return stop(ctx)
}
