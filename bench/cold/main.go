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
	"strings"
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
	low     string
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
	flag.StringVar(&o.low, "low", "nice -n 19", "`COMMAND` that runs the consumer at a low priority")
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
	var without, with seconds
	for range o.rounds {
		alone, _, err := o.part(ctx, false)
		if err != nil {
			return err
		}
		without.add(alone)
		both, c, err := o.part(ctx, true)
		if err != nil {
			return err
		}
		with.add(both)
		fmt.Printf("send p50/p99/p99.9 µs: alone %s  with catch-up %s  (%.0f MB/s for %.1f s)\n",
			percentiles(alone.Latency), percentiles(both.Latency), c.MegabytesPerSec, c.Seconds)
	}
	for _, q := range []float64{0.25, 0.5, 0.75} {
		a, b := without.quantile(q), with.quantile(q)
		fmt.Printf("p99 of a second, quantile %.2f: alone %.0f µs, with catch-up %.0f µs, ratio %.2f\n", q, a, b, b/a)
	}
	if o.keep {
		return nil
	}
	return os.RemoveAll(o.dir)
}

func percentiles(l bench.Latency) string { return fmt.Sprintf("%.0f/%.0f/%.0f", l.P50, l.P99, l.P999) }

// seconds are the p99 of single seconds: on a machine that does other things as well, a stall of 100 ms decides the p99
// of ten seconds, but not their median.
type seconds []float64

func (s *seconds) add(r *bench.Report) {
	for _, i := range r.Intervals {
		*s = append(*s, i.P99)
	}
}

func (s seconds) quantile(q float64) float64 {
	slices.Sort(s)
	return s[int(q*float64(len(s)-1))]
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

func (o *options) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)) }

func (o *options) benchOptions(k bench.Kind, topic string) bench.Options {
	b := bench.DefaultOptions(k)
	b.Broker = o.addr()
	b.Topic = topic
	return b
}

// part measures one run of the producers on a cold cache.
func (o *options) part(ctx context.Context, catchUp bool) (sent, consumed *bench.Report, err error) {
	if err := dropCache(o.dir); err != nil {
		return nil, nil, err
	}
	stop, err := o.startBroker(ctx)
	if err != nil {
		return nil, nil, err
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
		return nil, nil, err
	}
	if r.FailedMessages > 0 {
		return nil, nil, fmt.Errorf("cold: %d sends failed: %v", r.FailedMessages, r.Failures)
	}
	if catchUp && consumed.Seconds < o.seconds.Seconds() {
		fmt.Printf("the consumer was through after %.1f s: give more -gib\n", consumed.Seconds)
	}
	return r, consumed, nil
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
	words := append(strings.Fields(o.low), self)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), consumeEnv+"=1")
	cmd.Stderr = os.Stderr
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
	err = errors.Join(json.NewEncoder(in).Encode(consumerRun{o.addr(), coldTopic, o.conns, o.seconds}), in.Close())
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
		nc, err := d.DialContext(ctx, "tcp", o.addr())
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
