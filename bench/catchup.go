package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"skylark/client"
)

// catchUpPause is between two questions to the slave.
const catchUpPause = 10 * time.Millisecond

// CatchUpOptions say which slave copies whose log. The flag of each is in its comment.
type CatchUpOptions struct {
	Master, Slave       string        // --master, --slave: host:port, where clients connect
	MasterPID, SlavePID int           // --master-pid, --slave-pid; 0: their CPU time is not known
	Wait                time.Duration // --wait: how long the slave may take to answer, to begin, and to go on
	// ask gives a broker's runtime information (tests).
	ask func(ctx context.Context, addr string) (map[string]string, error)
}

// CatchUpReport is how a slave got what its master had. It counts from the last look at which nothing had come yet, or from
// the first one.
type CatchUpReport struct {
	Bytes   int64         `json:"bytes"`
	Took    time.Duration `json:"tookNanos"`
	Queues  time.Duration `json:"queuesNanos"` // until all of it had its entries in the queues
	Peak    float64       `json:"peakMegabytesPerSec"`
	Master  float64       `json:"masterCpuSecondsPerGB"` // 0: not known
	Slave   float64       `json:"slaveCpuSecondsPerGB"`
	Partial bool          `json:"partial"` // it had begun before the first look
}

// MegabytesPerSec is the rate of all of it.
func (r *CatchUpReport) MegabytesPerSec() float64 {
	return float64(r.Bytes) / 1e6 / max(r.Took.Seconds(), 1e-3)
}

// Text is the report in a line.
func (r *CatchUpReport) Text() string {
	text := fmt.Sprintf("%.2f GB in %.2f s: %.0f MB/s, best half second %.0f MB/s; queues complete after %.2f s; CPU s a GB: "+
		"master %.2f, slave %.2f", float64(r.Bytes)/1e9, r.Took.Seconds(), r.MegabytesPerSec(), r.Peak, r.Queues.Seconds(),
		r.Master, r.Slave)
	if r.Partial {
		text += " (the slave had begun before the first look)"
	}
	return text + "\n"
}

// look is the state of the slave at a moment.
type look struct {
	at          time.Time
	end, behind int64
	master, cpu time.Duration
}

// CatchUp watches a slave until it has all that the master has now, and its queues have entries for all of it. Nothing
// should be sent meanwhile. It may be called before the slave runs.
func CatchUp(ctx context.Context, o CatchUpOptions) (*CatchUpReport, error) {
	if o.ask == nil {
		c := client.New(client.Options{CallTimeout: time.Second, ConnectTimeout: time.Second})
		defer c.Close() // nothing is under way
		o.ask = c.RuntimeInfo
	}
	master, err := o.look(ctx, o.Master)
	if err != nil {
		return nil, fmt.Errorf("bench: catchup: master: %w", err)
	}
	r := &CatchUpReport{}
	var first, begin look // before anything had come, and with the first bytes
	var seen []look
	for deadline := time.Now().Add(o.Wait); ; {
		now, err := o.look(ctx, o.Slave)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case time.Now().After(deadline):
			return nil, fmt.Errorf("bench: catchup: no progress for %v: the slave is at %d of %d: %w", o.Wait, now.end, master.end,
				err)
		case err != nil:
		case first.at.IsZero():
			first, begin = now, now
			if now.end >= master.end {
				return nil, errors.New("bench: catchup: the slave has all of it already")
			}
		case begin.end == first.end && now.end == first.end:
			begin = now
		default:
			if len(seen) == 0 || seen[len(seen)-1].end != now.end || seen[len(seen)-1].behind != now.behind {
				deadline = time.Now().Add(o.Wait)
			}
			if len(seen) == 0 {
				seen, r.Partial = append(seen, begin), begin == first
			}
			if r.note(&seen, now, master.end) {
				return r, nil
			}
		}
		if !wait(ctx, catchUpPause) {
			return nil, ctx.Err()
		}
	}
}

// note takes a look over; true at the end.
func (r *CatchUpReport) note(seen *[]look, now look, end int64) bool {
	*seen = append(*seen, now)
	begin := (*seen)[0]
	for _, l := range *seen {
		if d := now.at.Sub(l.at); d >= 500*time.Millisecond && d < time.Second {
			r.Peak = max(r.Peak, float64(now.end-l.end)/1e6/d.Seconds())
			break
		}
	}
	if now.end < end {
		return false
	}
	if r.Took == 0 {
		r.Bytes, r.Took = now.end-begin.end, now.at.Sub(begin.at)
	}
	r.Queues = now.at.Sub(begin.at)
	gb := float64(r.Bytes) / 1e9
	r.Master, r.Slave = (now.master-begin.master).Seconds()/gb, (now.cpu-begin.cpu).Seconds()/gb
	return now.behind <= 0
}

// look asks a broker.
func (o *CatchUpOptions) look(ctx context.Context, addr string) (l look, err error) {
	table, err := o.ask(ctx, addr)
	if err != nil {
		return l, err
	}
	l.at = time.Now()
	if l.end, err = strconv.ParseInt(table["commitLogMaxOffset"], 10, 64); err != nil {
		return l, fmt.Errorf("commitLogMaxOffset of %s: %w", addr, err)
	}
	if l.behind, err = strconv.ParseInt(table["dispatchBehindBytes"], 10, 64); err != nil {
		return l, fmt.Errorf("dispatchBehindBytes of %s: %w", addr, err)
	}
	if o.MasterPID != 0 {
		if l.master, err = processCPU(o.MasterPID); err != nil {
			return l, err
		}
	}
	if o.SlavePID != 0 {
		l.cpu, err = processCPU(o.SlavePID)
	}
	return l, err
}

// catchUpMain is the command.
func catchUpMain(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o CatchUpOptions
	fs := flag.NewFlagSet("skylark bench catchup", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints the error
	fs.StringVar(&o.Master, "master", "", "`ADDR` of the master, host:port")
	fs.StringVar(&o.Slave, "slave", "", "`ADDR` of the slave, host:port; it need not run yet")
	fs.IntVar(&o.MasterPID, "master-pid", 0, "`PID` of the master: report its CPU time")
	fs.IntVar(&o.SlavePID, "slave-pid", 0, "`PID` of the slave: report its CPU time")
	fs.DurationVar(&o.Wait, "wait", time.Minute, "without progress for so long it fails")
	asJSON := fs.Bool("json", false, "print JSON")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, "usage: skylark bench catchup --master ADDR --slave ADDR [flags]\n\n")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
			return err
		}
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if o.Master == "" || o.Slave == "" || fs.NArg() > 0 {
		return fmt.Errorf("%w: catchup needs --master and --slave, and nothing else", ErrUsage)
	}
	r, err := CatchUp(ctx, o)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(stdout).Encode(r)
	}
	_, err = io.WriteString(stdout, r.Text())
	return err
}
