package bench

import (
	"errors"
	"fmt"
	"time"

	"skylark/client"
	"skylark/codec"
)

// ErrUsage marks options that cannot be; the error names the flag.
var ErrUsage = errors.New("bench: wrong usage")

func usage(flag, format string, args ...any) error {
	return fmt.Errorf("%w: --%s: %s", ErrUsage, flag, fmt.Sprintf(format, args...))
}

// Kind is what a run does.
type Kind string

// The kinds of runs.
const (
	Produce  Kind = "produce"
	Consume  Kind = "consume"
	EndToEnd Kind = "e2e"
	Idle     Kind = "idle"
	Pop      Kind = "pop"
)

// Mode is how a producer waits for its answers.
type Mode string

// The modes: one request at a time on each connection, a window of them, or no answers at all.
const (
	Sync   Mode = "sync"
	Async  Mode = "async"
	Oneway Mode = "oneway"
)

// From is where consumers begin.
type From string

// The places to begin: the queue's first message, behind its last one, or where the group has stopped.
const (
	FromFirst From = "first"
	FromLast  From = "last"
	FromGroup From = "group"
)

// defaultDuration is how long the command sends if nothing else limits it.
const defaultDuration = 10 * time.Second

// Limits of options.
const (
	maxConns   = 10000
	maxWindow  = 1 << 16
	maxSize    = 4 << 20
	maxBatch   = 4096
	maxKeys    = 16
	maxTags    = 16
	maxQueues  = 1024
	maxTopics  = 20000
	maxGroups  = 20000
	maxValues  = 64  // of --property
	maxPopped  = 32  // messages of a pop, Java's own limit
	maxLevel   = 127 // of --delay-level
	maxRate    = 1e7
	maxTimeout = time.Hour
)

// Options of a run. The flag of each is in its comment; DefaultOptions gives what the command uses without
// flags.
type Options struct {
	Kind      Kind
	Namesrv   []string            // -n: name servers, host:port
	Broker    string              // -b: a broker, host:port, in place of name servers
	Topic     string              // -t: made if it is unknown
	Queues    int                 // --queues: of a topic that is made
	Topics    int                 // --topics: more than 1: TOPIC_00000 and so on, all made or changed
	Serialize codec.SerializeType // --serialize
	Timeout   time.Duration       // --timeout: an answer that takes longer is a failure

	Size     int      // --size: bytes of a body, before compression
	Conns    int      // --conns: connections that send, or that each consumer group has
	Window   int      // --window: requests under way on a connection; 0: 32, and no limit with a rate
	Rate     float64  // --rate: messages a second over all connections, open loop; 0: closed loop
	Mode     Mode     // --mode
	Batch    int      // --batch: messages in a send request
	Keys     int      // --keys: of each message
	Tags     []string // --tags: taken in turn when sending; what to subscribe to when consuming
	Compress int32    // --compress: SysFlagCompression… or 0

	DelayLevel  int           // --delay-level: of each message; 0: none
	Delay       time.Duration // --delay: of each message, a timer's; 0: none
	Transaction bool          // --transaction: half messages, each committed when it is acknowledged
	Property    string        // --property: name of a property that takes Values in turn; empty: none
	Values      []string

	PullBatch int           // --pull-batch: most messages of a pull
	From      From          // --from
	Group     string        // --group: name of the consumer group, or what the names of several begin with
	Groups    int           // --groups: each gets every message
	Suspend   time.Duration // --suspend: how long the broker may hold a pull; 0: it answers at once
	Loop      bool          // --loop: at a queue's end begin again at its first message
	CheckCRC  bool          // --check-crc: of every body
	SQL       string        // --sql: expression that consumers subscribe with, in place of tags; empty: none
	Share     int           // --share: connections that all groups have together; 0: each has its own
	Invisible time.Duration // --invisible: for how long a popped message is another's to take no more
	BatchAck  bool          // --batch-ack: one request for all messages of a pop

	Duration time.Duration // --duration of the measured part; 0: see Count
	Warmup   time.Duration // --warmup: before it, not counted
	Count    int64         // --count: messages; 0: no limit
	Drain    time.Duration // --drain: how long to wait for what was sent last

	Verify bool   // --verify: every acknowledged message is seen
	Ledger string // --ledger: file of the acknowledged messages, written by produce and e2e, read by consume

	Note   string   // --note: what the run's numbers depend on and cannot be asked: flush mode, disk, role
	CPUPid int      // --cpu-pid: the broker's process
	Args   []string // the command line, for the report

	// Dialer makes the connections, net.Dialer if nil.
	Dialer client.Dialer
	// Progress gets one line each second; nil: none.
	Progress func(line string)
	// sleep waits in place of the precise clock (tests with virtual time).
	sleep func(d time.Duration)
}

// DefaultOptions are those of the command without flags.
func DefaultOptions(k Kind) Options {
	return Options{
		Kind: k, Topic: "SkylarkBench", Topics: 1, Queues: 8, Timeout: 3 * time.Second,
		Size: 1024, Conns: 4, Mode: Async, Batch: 1,
		PullBatch: 32, From: FromFirst, Group: "skylark_bench", Groups: 1, Suspend: 15 * time.Second,
		Drain: 10 * time.Second, Invisible: time.Minute,
	}
}

// openLoop tells that messages are due at fixed times.
func (o *Options) openLoop() bool { return o.Rate > 0 }

// stamped tells whether bodies have room for a stamp.
func (o *Options) stamped() bool { return o.Size >= StampBytes }

// sends tells whether the run has producers, receives whether it has consumers.
func (o *Options) sends() bool    { return o.Kind == Produce || o.Kind == EndToEnd }
func (o *Options) receives() bool { return o.Kind == Consume || o.Kind == EndToEnd || o.Kind == Pop }

// Validate names the first flag whose value cannot be.
func (o *Options) Validate() error {
	switch o.Kind {
	case Produce, Consume, EndToEnd, Idle, Pop:
	default:
		return fmt.Errorf("%w: there is no %q, only produce, consume, e2e, pop and idle", ErrUsage, o.Kind)
	}
	if (len(o.Namesrv) == 0) == (o.Broker == "") {
		return fmt.Errorf("%w: give either -n (name servers) or -b (a broker)", ErrUsage)
	}
	if err := codec.ValidateTopic(o.Topic); err != nil {
		return usage("t", "%v", err)
	}
	for _, l := range []struct {
		flag          string
		value, lo, hi int64
	}{
		{"queues", int64(o.Queues), 1, maxQueues},
		{"topics", int64(o.Topics), 1, maxTopics},
		{"timeout", int64(o.Timeout), int64(time.Millisecond), int64(maxTimeout)},
		{"conns", int64(o.Conns), 1, maxConns},
		{"duration", int64(o.Duration), 0, 1 << 62},
		{"warmup", int64(o.Warmup), 0, 1 << 62},
		{"drain", int64(o.Drain), 0, int64(maxTimeout)},
		{"count", o.Count, 0, maxSeq},
		{"cpu-pid", int64(o.CPUPid), 0, 1 << 31},
	} {
		if l.value < l.lo || l.value > l.hi {
			return usage(l.flag, "%d is not in [%d, %d]", l.value, l.lo, l.hi)
		}
	}
	switch {
	case o.Topics > 1 && o.Kind != Produce:
		return usage("topics", "only producers spread their load over topics")
	case o.Kind == Idle && o.Duration == 0:
		return usage("duration", "say how long the connections stay")
	}
	if o.sends() {
		if err := o.validateProducer(); err != nil {
			return err
		}
	}
	if o.receives() {
		return o.validateConsumer()
	}
	return nil
}

func (o *Options) validateProducer() error {
	switch {
	case o.Size < 0 || o.Size > maxSize:
		return usage("size", "%d is not in [0, %d]", o.Size, maxSize)
	case o.Window < 0 || o.Window > maxWindow:
		return usage("window", "%d is not in [0, %d]", o.Window, maxWindow)
	case o.Rate < 0 || o.Rate > maxRate:
		return usage("rate", "%g is not in [0, %g]", o.Rate, float64(maxRate))
	case o.Batch < 1 || o.Batch > maxBatch:
		return usage("batch", "%d is not in [1, %d]", o.Batch, maxBatch)
	case o.Batch*(o.Size+256) > maxSize:
		return usage("batch", "%d messages of %d bytes exceed %d bytes", o.Batch, o.Size, maxSize)
	case o.Keys < 0 || o.Keys > maxKeys:
		return usage("keys", "%d is not in [0, %d]", o.Keys, maxKeys)
	case len(o.Tags) > maxTags:
		return usage("tags", "%d of them, at most %d", len(o.Tags), maxTags)
	case o.Batch > 1 && o.Compress != 0:
		return usage("compress", "clients never compress batches")
	case o.Count == 0 && o.Duration == 0:
		return usage("duration", "give --duration or --count")
	case o.Kind == EndToEnd && o.Rate == 0:
		return usage("rate", "e2e needs one: latency counts from the time a message was due")
	case (o.Kind == EndToEnd || o.Verify || o.Ledger != "") && !o.stamped():
		return usage("size", "%d: the stamp of a message takes %d bytes", o.Size, StampBytes)
	}
	if err := o.validateKindOfMessage(); err != nil {
		return err
	}
	switch o.Mode {
	case Sync, Async:
	case Oneway:
		if o.Verify || o.Ledger != "" {
			return usage("mode", "oneway sends are never acknowledged, there is nothing to verify")
		}
	default:
		return usage("mode", "%q is none of sync, async, oneway", o.Mode)
	}
	if o.Mode == Sync && o.Window > 1 {
		return usage("window", "%d, but with --mode sync it is 1", o.Window)
	}
	if o.Verify && o.Kind == Produce {
		return usage("verify", "a producer sees nothing; record with --ledger and verify with consume")
	}
	return nil
}

// validateKindOfMessage looks at what makes messages more than plain ones.
func (o *Options) validateKindOfMessage() error {
	switch {
	case o.DelayLevel < 0 || o.DelayLevel > maxLevel:
		return usage("delay-level", "%d is not in [0, %d]", o.DelayLevel, maxLevel)
	case o.Delay < 0 || o.Delay > 0 && o.Delay < time.Millisecond:
		return usage("delay", "%v is no delay of at least a millisecond", o.Delay)
	case o.Delay > 0 && o.DelayLevel > 0:
		return usage("delay", "a message has either a time or a level")
	case o.Batch > 1 && (o.Delay > 0 || o.DelayLevel > 0 || o.Transaction || o.Property != ""):
		return usage("batch", "messages of a batch have neither delay nor transaction nor property")
	case o.Transaction && o.Mode == Oneway:
		return usage("transaction", "an end takes what the answer to its half message says, oneway has none")
	case o.Property != "" && (len(o.Values) == 0 || len(o.Values) > maxValues):
		return usage("property", "%d values, 1 to %d are allowed", len(o.Values), maxValues)
	}
	return nil
}

func (o *Options) validateConsumer() error {
	switch o.From {
	case FromFirst, FromLast, FromGroup:
	default:
		return usage("from", "%q is none of first, last, group", o.From)
	}
	switch {
	case o.PullBatch < 1 || o.PullBatch > maxBatch:
		return usage("pull-batch", "%d is not in [1, %d]", o.PullBatch, maxBatch)
	case o.Groups < 1 || o.Groups > maxGroups:
		return usage("groups", "%d is not in [1, %d]", o.Groups, maxGroups)
	case o.Suspend < 0 || o.Suspend > maxTimeout:
		return usage("suspend", "%v is not in [0, %v]", o.Suspend, maxTimeout)
	case o.Kind == Consume && o.Verify && o.Ledger == "":
		return usage("verify", "name the producer's record with --ledger")
	case o.Loop && (o.Verify || o.Kind == EndToEnd):
		return usage("loop", "messages would be seen again and again")
	case o.Loop && o.Count == 0 && o.Duration == 0:
		return usage("loop", "give --duration or --count")
	case o.Kind == Consume && o.From == FromLast && o.Count == 0 && o.Duration == 0:
		return usage("from", "behind the last message there is nothing yet: give --duration or --count")
	}
	if err := codec.ValidateGroup(o.Group); err != nil {
		return usage("group", "%v", err)
	}
	return o.validateKindOfConsumer()
}

func (o *Options) validateKindOfConsumer() error {
	switch {
	case o.SQL != "" && len(o.Tags) > 0 && o.Kind != EndToEnd:
		return usage("sql", "a subscription has either an expression or tags")
	case o.Share < 0 || o.Share > maxConns:
		return usage("share", "%d is not in [0, %d]", o.Share, maxConns)
	case o.Share > 0 && (o.Kind != Consume || o.Verify):
		return usage("share", "only consumers that do not verify share connections")
	case o.Kind == Pop && o.PullBatch > maxPopped:
		return usage("pull-batch", "%d, but a pop gives %d messages at most", o.PullBatch, maxPopped)
	case o.Kind == Pop && o.Invisible < time.Second:
		return usage("invisible", "%v, give at least a second", o.Invisible)
	case o.Kind == Pop && (o.Verify || o.Loop || o.Groups > 1 || o.SQL != ""):
		return usage("group", "a pop has one group that takes each message once")
	}
	return nil
}

// window is how many requests may be under way on a connection.
func (o *Options) window() int {
	switch {
	case o.Mode == Sync:
		return 1
	case o.Window > 0:
		return o.Window
	case o.openLoop():
		return maxWindow
	}
	return 32
}
