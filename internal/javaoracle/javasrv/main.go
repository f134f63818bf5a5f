// Command javasrv runs the real Java name server and broker until it is interrupted.
//
//	javasrv -dir DIR -cache DIR [-version 5.3.3] [-namesrv-port P] [-broker-port P] [-prop key=value]... [-jvm FLAG]...
//
// It prints "ready" when both listen. A port of 0 leaves that server out. On SIGINT or SIGTERM the broker,
// then the name server are shut down in order; -kill ends the broker as kill -9 would.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"skylark/internal/javaoracle"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "javasrv:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	s := javaoracle.Server{Properties: map[string]string{}}
	flag.StringVar(&s.Dir, "dir", "", "working directory of the servers")
	flag.StringVar(&s.CacheDir, "cache", "", "directory for the jars")
	flag.StringVar(&s.Version, "version", javaoracle.Version53, "release")
	flag.StringVar(&s.Bind, "bind", "127.0.0.1", "address the servers listen on")
	flag.StringVar(&s.Advertise, "advertise", "", "address the broker registers, -bind if empty")
	flag.StringVar(&s.Namesrv, "namesrv", "", "name server for the broker, -bind:-namesrv-port if empty")
	flag.IntVar(&s.NamesrvPort, "namesrv-port", 0, "port of the name server")
	flag.IntVar(&s.BrokerPort, "broker-port", 0, "port of the broker")
	flag.Func("jvm", "flag for the Java processes; may be repeated", func(text string) error {
		s.JVMFlags = append(s.JVMFlags, text)
		return nil
	})
	kill := flag.Bool("kill", false, "end the broker with SIGKILL")
	flag.Func("prop", "key=value for the broker; may be repeated", func(text string) error {
		k, v, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("not key=value")
		}
		s.Properties[k] = v
		return nil
	})
	flag.Parse()
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	if s.CacheDir, err = filepath.Abs(s.CacheDir); err != nil {
		return err
	}
	if s.NamesrvPort != 0 {
		p, err := s.StartNamesrv(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Stop()) }()
	}
	if s.BrokerPort != 0 {
		p, err := s.StartBroker(ctx)
		if err != nil {
			return err
		}
		end := p.Stop
		if *kill {
			end = p.Kill
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}
