package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"skylark/client"
	"skylark/codec"
)

// usageText is what -h tells before the flags.
const usageText = `usage: skylark bench produce|consume|e2e|pop|idle -n NAMESRV | -b BROKER [flags]
       skylark bench suite --targets NAME=ADDR,... [flags]
       skylark bench catchup --master ADDR --slave ADDR [flags]

  produce   send; closed loop, or open loop with --rate
  consume   pull: what there is, or for --duration or until --count
  e2e       send at --rate to consumers that wait in long polls
  pop       take messages with POP and acknowledge each, until there are no more
  idle      keep --conns connections open that only send heartbeats
  suite     a table of workloads against several brokers side by side
  catchup   watch a slave get what its master has
`

// Main is the command: it reads the flags, runs, prints the report to stdout and progress to stderr. An
// ErrUsage names the wrong flag; flag.ErrHelp says that help was asked for and printed.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		fmt.Fprint(stderr, usageText)
		if len(args) == 0 {
			return fmt.Errorf("%w: say what to do: produce, consume, e2e, pop, idle, catchup or suite", ErrUsage)
		}
		return flag.ErrHelp
	}
	if args[0] == "catchup" {
		return catchUpMain(ctx, args[1:], stdout, stderr)
	}
	o := DefaultOptions(Kind(args[0]))
	var c command
	if err := c.parse(&o, args[1:], stderr); err != nil {
		return err
	}
	o.Args = slices.Concat([]string{"skylark", "bench"}, args)
	if !c.quiet {
		o.Progress = func(line string) { fmt.Fprintln(stderr, line) }
	}
	report, err := Run(ctx, o)
	if report == nil {
		return err
	}
	return errors.Join(err, c.print(report, stdout, stderr))
}

// command is what the flags say beside the options.
type command struct {
	json  string
	quiet bool
}

// parse reads the flags into o and validates it.
func (c *command) parse(o *Options, args []string, stderr io.Writer) error {
	switch o.Kind {
	case Produce, Consume, EndToEnd, Idle, Pop:
	default:
		return o.Validate()
	}
	fs := flag.NewFlagSet("skylark bench "+string(o.Kind), flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints the error; see ErrHelp below
	c.common(fs, o)
	if o.sends() {
		producerFlags(fs, o)
	}
	if o.receives() {
		consumerFlags(fs, o)
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usageText+"\n")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
			return err
		}
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%w: %q is no flag", ErrUsage, fs.Arg(0))
	}
	if o.makes() && o.Duration == 0 && o.Count == 0 {
		o.Duration = defaultDuration
	}
	return o.Validate()
}

// common are the flags of every kind.
func (c *command) common(fs *flag.FlagSet, o *Options) {
	fs.Func("n", "name server `ADDRS`, host:port separated by ;", func(v string) (err error) {
		o.Namesrv, err = client.SplitAddrs(v)
		return err
	})
	fs.StringVar(&o.Broker, "b", "", "`ADDR` of a broker, in place of name servers")
	fs.StringVar(&o.Topic, "t", o.Topic, "`TOPIC`; all but consume make it if it is unknown")
	fs.IntVar(&o.Queues, "queues", o.Queues, "`N` queues at each broker, of a topic that is made")
	fs.Func("serialize", "`TYPE` of headers: json or rocketmq (default json)", func(v string) error {
		switch strings.ToLower(v) {
		case "json":
			o.Serialize = codec.SerializeJSON
		case "rocketmq":
			o.Serialize = codec.SerializeROCKETMQ
		default:
			return fmt.Errorf("%q is neither json nor rocketmq", v)
		}
		return nil
	})
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "an answer that takes longer is a failure")
	fs.IntVar(&o.Conns, "conns", o.Conns, "`N` connections that send, and that each consumer group has")
	fs.DurationVar(&o.Duration, "duration", 0, "of the measured part (default of producers without --count: 10s)")
	fs.DurationVar(&o.Warmup, "warmup", 0, "before the measured part")
	fs.Int64Var(&o.Count, "count", 0, "`N` messages, then stop")
	fs.DurationVar(&o.Drain, "drain", o.Drain, "how long to wait at the end for messages that do not come")
	fs.Func("tags", "`LIST` by comma: taken in turn when sending, what consumers subscribe to", func(v string) error {
		o.Tags = slices.DeleteFunc(strings.Split(v, ","), func(t string) bool { return strings.TrimSpace(t) == "" })
		return nil
	})
	fs.BoolVar(&o.Verify, "verify", false, "fail unless every acknowledged message is seen")
	fs.StringVar(&o.Ledger, "ledger", "", "`FILE` of acknowledged messages: produce and e2e write it, consume reads it")
	fs.StringVar(&o.Note, "note", "", "`TEXT` for the report: flush mode, disk, whatever the numbers depend on")
	fs.IntVar(&o.CPUPid, "cpu-pid", 0, "`PID` of the broker: report its CPU time and memory")
	fs.StringVar(&c.json, "json", "", "`FILE` for the report as JSON; - is stdout")
	fs.BoolVar(&c.quiet, "quiet", false, "no line each second")
}

func producerFlags(fs *flag.FlagSet, o *Options) {
	if o.Kind == Produce {
		fs.IntVar(&o.Topics, "topics", o.Topics, "`N` topics to send to in turn: TOPIC_00000 and so on, made or changed")
		fs.IntVar(&o.DelayLevel, "delay-level", 0, "`LEVEL` of each message's delay")
		fs.DurationVar(&o.Delay, "delay", 0, "of each message, by a timer")
		fs.BoolVar(&o.Transaction, "transaction", false, "send half messages and commit each when it is acknowledged")
	}
	fs.Func("property", "`NAME=V1,V2,...`: a property of each message, its values in turn", func(v string) error {
		name, list, ok := strings.Cut(v, "=")
		if o.Property, o.Values = name, strings.Split(list, ","); !ok || name == "" {
			return fmt.Errorf("%q is not NAME=V1,V2", v)
		}
		return nil
	})
	fs.IntVar(&o.Size, "size", o.Size, "`BYTES` of a body, before compression")
	fs.IntVar(&o.Window, "window", 0, "`N` requests under way on each connection (default 32; with --rate no limit)")
	fs.Float64Var(&o.Rate, "rate", 0, "`N` messages a second over all connections; latency counts from the time due")
	fs.Func("mode", "`MODE` of sends: async, sync (window 1) or oneway (default async)", func(v string) error {
		o.Mode = Mode(v)
		return nil
	})
	fs.IntVar(&o.Batch, "batch", o.Batch, "`N` messages in each send request")
	fs.IntVar(&o.Keys, "keys", 0, "`N` keys of each message")
	fs.Func("compress", "`TYPE` of each body's compression: none, zlib, lz4, zstd (default none)", func(v string) error {
		var ok bool
		if o.Compress, ok = compressions[v]; !ok {
			return fmt.Errorf("%q is none of none, zlib, lz4, zstd", v)
		}
		return nil
	})
}

func consumerFlags(fs *flag.FlagSet, o *Options) {
	fs.IntVar(&o.PullBatch, "pull-batch", o.PullBatch, "most `N` messages of a pull")
	fs.StringVar(&o.Group, "group", o.Group, "`NAME` of the consumer group, or what the names of several begin with")
	if o.Kind == Pop {
		fs.DurationVar(&o.Invisible, "invisible", o.Invisible, "how long a popped message waits for its ack")
		fs.BoolVar(&o.BatchAck, "batch-ack", false, "acknowledge all messages of a pop in one request")
		return
	}
	fs.StringVar(&o.SQL, "sql", "", "`EXPRESSION` in SQL92 to subscribe with, in place of tags")
	fs.IntVar(&o.Groups, "groups", o.Groups, "`N` consumer groups, each of which gets every message")
	fs.DurationVar(&o.Suspend, "suspend", o.Suspend, "how long the broker may hold a pull; 0: not at all")
	fs.BoolVar(&o.CheckCRC, "check-crc", false, "check the checksum of every body")
	if o.Kind == Consume {
		fs.Func("from", "`WHERE` to begin: first, last or group (default first)", func(v string) error {
			o.From = From(v)
			return nil
		})
		fs.BoolVar(&o.Loop, "loop", false, "at a queue's end begin again at its first message")
		fs.IntVar(&o.Share, "share", 0, "`N` connections that all groups have together (default: --conns each)")
	}
}

// print writes the report: text to stdout and JSON to a file, or JSON to stdout and text to stderr.
func (c *command) print(r *Report, stdout, stderr io.Writer) error {
	if c.json == "" {
		_, err := io.WriteString(stdout, r.Text())
		return err
	}
	text, err := r.JSON()
	if err != nil {
		return err
	}
	if c.json == "-" {
		_, err := stdout.Write(text)
		if !c.quiet {
			_, _ = io.WriteString(stderr, r.Text()) // a courtesy
		}
		return err
	}
	if err := os.WriteFile(c.json, text, 0o644); err != nil {
		return fmt.Errorf("bench: --json: %w", err)
	}
	_, err = io.WriteString(stdout, r.Text())
	return err
}
