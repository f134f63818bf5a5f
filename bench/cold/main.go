// Command cold shows what a consumer that catches up over cold data does to producers. It fills a topic of a broker of
// its own, drops the log from the page cache, and sends at a fixed rate to another topic, open loop, with and without
// such a consumer, in turn; it prints the percentiles of both and their ratio.
//
//	go run ./bench/cold -skylark bin/skylark -dir DIR [flags] [key=value of the broker ...]
//
// The consumer is a process of its own at the lowest priority: on a machine with few cores its own work would otherwise
// be measured, which is elsewhere in earnest. The broker is started anew for every part, because pages that are mapped
// cannot be dropped. A clean start reads the last three files of the log, so there should be many.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"skylark/bench"
)

const (
	coldTopic = "ColdTopic"
	hotTopic  = "HotTopic"
	// consumeEnv makes this program the consumer: bench.Options of the run as JSON are on its stdin.
	consumeEnv = "SKYLARK_BENCH_COLD_CONSUMER"
	// startTimeout bounds a start with recovery.
	startTimeout = time.Minute
)

// options of the command line.
type options struct {
	skylark string
	dir     string
	conf    []string
	port    int
	gib     float64
	fileMiB int
	size    int
	rate    float64
	seconds time.Duration
	rounds  int
	conns   int
	keep    bool
}

func main() {
	if os.Getenv(consumeEnv) != "" {
		exit(consumer())
		return
	}
	var o options
	flag.StringVar(&o.skylark, "skylark", "bin/skylark", "`FILE`: the program")
	flag.StringVar(&o.dir, "dir", "", "`DIR` for the store; filled if it is empty, used again if it is not")
	flag.IntVar(&o.port, "port", 34911, "`PORT` of the broker")
	flag.Float64Var(&o.gib, "gib", 6, "`N` GiB of cold messages")
	flag.IntVar(&o.fileMiB, "file-mib", 256, "`N` MiB a file of the log")
	flag.IntVar(&o.size, "size", 4096, "`N` bytes a cold body")
	flag.Float64Var(&o.rate, "rate", 2000, "`N` messages of 1 KiB a second that are sent")
	flag.DurationVar(&o.seconds, "time", 8*time.Second, "of each part")
	flag.IntVar(&o.rounds, "rounds", 3, "`N` times both parts")
	flag.IntVar(&o.conns, "consumers", 1, "`N` connections of the consumer")
	flag.BoolVar(&o.keep, "keep", false, "keep the store")
	flag.Parse()
	o.conf = flag.Args()
	if o.dir == "" {
		exit(errors.New("cold: give -dir"))
	}
	exit(o.run(context.Background()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) error {
	if err := o.fill(ctx); err != nil {
		return err
	}
	var without, with []bench.Latency
	for range o.rounds {
		l, _, err := o.part(ctx, false)
		if err != nil {
			return err
		}
		without = append(without, l)
		l, c, err := o.part(ctx, true)
		if err != nil {
			return err
		}
		with = append(with, l)
		fmt.Printf("send p50/p99/p99.9 µs: alone %s  with catch-up %s  (%.0f MB/s for %.1f s)\n",
			percentiles(without[len(without)-1]), percentiles(l), c.MegabytesPerSec, c.Seconds)
	}
	a, b := median(without), median(with)
	fmt.Printf("median of p99: alone %.0f µs, with catch-up %.0f µs, ratio %.2f\n", a, b, b/a)
	if o.keep {
		return nil
	}
	return os.RemoveAll(o.dir)
}

func percentiles(l bench.Latency) string { return fmt.Sprintf("%.0f/%.0f/%.0f", l.P50, l.P99, l.P999) }

func median(list []bench.Latency) float64 {
	p := make([]float64, len(list))
	for i, l := range list {
		p[i] = l.P99
	}
	slices.Sort(p)
	return p[len(p)/2]
}

// fill writes the cold topic unless the directory has a log.
func (o *options) fill(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(o.dir, "commitlog")); err == nil {
		return nil
	}
	stop, err := o.startBroker(ctx)
	if err != nil {
		return err
	}
	b := o.benchOptions(bench.Produce, coldTopic)
	b.Size, b.Batch, b.Duration = o.size, 32, 0
	b.Count = int64(o.gib * (1 << 30) / float64(o.size+200))
	b.Timeout = 20 * time.Second
	r, err := bench.Run(ctx, b)
	if err == nil {
		fmt.Printf("filled: %d messages, %.0f MB/s\n", r.Messages, r.MegabytesPerSec)
	}
	return errors.Join(err, stop())
}

func (o *options) benchOptions(k bench.Kind, topic string) bench.Options {
	b := bench.DefaultOptions(k)
	b.Broker = net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port))
	b.Topic = topic
	return b
}

// part measures one run of the producers on a cold cache.
func (o *options) part(ctx context.Context, catchUp bool) (l bench.Latency, consumed *bench.Report, err error) {
	if err := dropCache(o.dir); err != nil {
		return l, nil, err
	}
	stop, err := o.startBroker(ctx)
	if err != nil {
		return l, nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	consumed = &bench.Report{}
	const warmup = 2 * time.Second
	done := make(chan error, 1)
	if catchUp {
		go func() { done <- o.catchUp(ctx, warmup, consumed) }()
	} else {
		done <- nil
	}
	b := o.benchOptions(bench.Produce, hotTopic)
	b.Rate, b.Warmup, b.Duration, b.Conns = o.rate, warmup, o.seconds, 2
	r, err := bench.Run(ctx, b)
	if err = errors.Join(err, <-done); err != nil {
		return l, nil, err
	}
	if r.FailedMessages > 0 {
		return l, nil, fmt.Errorf("cold: %d sends failed: %v", r.FailedMessages, r.Failures)
	}
	if catchUp && consumed.Seconds < o.seconds.Seconds() {
		fmt.Printf("the consumer was through after %.1f s: give more -gib\n", consumed.Seconds)
	}
	return r.Latency, consumed, nil
}

// catchUp runs the consumer as a process of its own, beginning with the measured part.
func (o *options) catchUp(ctx context.Context, after time.Duration, report *bench.Report) error {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self)
	cmd.Env = append(os.Environ(), consumeEnv+"=1")
	cmd.Stderr = os.Stderr
	b := o.benchOptions(bench.Consume, coldTopic)
	b.Conns, b.Duration, b.Suspend = o.conns, o.seconds, 0
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = errors.Join(json.NewEncoder(in).Encode(consumerRun{b.Broker, b.Topic, b.Conns, b.Duration}), in.Close())
	data, rerr := io.ReadAll(out)
	if err = errors.Join(err, rerr, cmd.Wait()); err != nil {
		return err
	}
	return json.Unmarshal(data, report)
}

// consumerRun is what the consumer's process is told.
type consumerRun struct {
	Broker   string
	Topic    string
	Conns    int
	Duration time.Duration
}

// consumer is the other process.
func consumer() error {
	var c consumerRun
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	b := bench.DefaultOptions(bench.Consume)
	b.Broker, b.Topic, b.Conns, b.Duration, b.Suspend = c.Broker, c.Topic, c.Conns, c.Duration, 0
	r, err := bench.Run(context.Background(), b)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// startBroker starts the program and waits until it serves; stop ends it cleanly.
func (o *options) startBroker(ctx context.Context) (stop func() error, err error) {
	args := append([]string{"broker", "-log", "warn", "listenPort=" + strconv.Itoa(o.port),
		"storePathRootDir=" + o.dir, "brokerIP1=127.0.0.1", "diskMaxUsedSpaceRatio=95",
		"mappedFileSizeCommitLog=" + strconv.Itoa(o.fileMiB<<20)}, o.conf...)
	cmd := exec.Command(o.skylark, args...)
	log, err := os.OpenFile(o.dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error { return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()) }
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var d net.Dialer
		nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
		if err == nil {
			return stop, nc.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("cold: the broker does not serve, see %s.log", o.dir), err, stop())
		}
	}
}

// dropCache writes the files of a directory back and drops them from the page cache.
func dropCache(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), dontNeed(f), f.Close())
	})
}

