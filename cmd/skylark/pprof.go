package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"
)

// pprofReadTimeout bounds how long a request's head may take; the answer may take as long as the profile.
const pprofReadTimeout = 10 * time.Second

// startPprof serves Go's profiles at /debug/pprof/ on a loopback address, for `go tool pprof http://ADDR/debug/pprof/profile`.
// A profile tells what goes through the process, so other addresses are refused. "" serves nothing.
func startPprof(addr string, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	if err := loopback(addr); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: pprofReadTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("pprof ended", "error", err)
		}
	}()
	log.Info("pprof listens", "url", fmt.Sprintf("http://%v/debug/pprof/", l.Addr()))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // a profile under way is cut off
		}
		<-done
	}, nil
}

// loopback refuses addresses that others can reach.
func loopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: -pprof: %w", errUsage, err)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("%w: -pprof %s: only a loopback address, as 127.0.0.1:6060 (ssh -L reaches it)",
		errUsage, addr)
}
