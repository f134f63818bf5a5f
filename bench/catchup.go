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
	"skylark/codec"
	"skylark/codec/body"
)

// catchUpPause is between two questions to the master, queuesPause between two to the slave, which cost it more.
const (
	catchUpPause = 10 * time.Millisecond
	queuesPause  = 50 * time.Millisecond
)

// CatchUpOptions say which slave copies whose log. The flag of each is in its comment.
type CatchUpOptions struct {
	Master, Slave       string        // --master, --slave: host:port, where clients connect
	MasterPID, SlavePID int           // --master-pid, --slave-pid; 0: their CPU time is not known
	Wait                time.Duration // --wait: how long the slave may take to answer, to begin, and to go on
	// status and info ask the master for its slaves, and the slave for its runtime information (tests).
	status func(ctx context.Context, addr string) (*body.HARuntimeInfo, error)
	info   func(ctx context.Context, addr string) (map[string]string, error)
}

// CatchUpReport is how a slave got what its master had. It counts from the last look at which it was not connected or had
// got nothing.
type CatchUpReport struct {
	Bytes  int64         `json:"bytes"`
	Took   time.Duration `json:"tookNanos"`
	Queues time.Duration `json:"queuesNanos"` // until all of it had its entries in the queues
	Peak   float64       `json:"peakMegabytesPerSec"`
	Master float64       `json:"masterCpuSecondsPerGB"` // 0: not known
	Slave  float64       `json:"slaveCpuSecondsPerGB"`  // until its queues are complete
}

// MegabytesPerSec is the rate of all of it.
func (r *CatchUpReport) MegabytesPerSec() float64 {
	return float64(r.Bytes) / 1e6 / max(r.Took.Seconds(), 1e-3)
}

// Text is the report in a line.
func (r *CatchUpReport) Text() string {
	return fmt.Sprintf("%.2f GB in %.2f s: %.0f MB/s, best half second %.0f MB/s; queues complete after %.2f s; CPU s a GB: "+
		"master %.2f, slave %.2f\n", float64(r.Bytes)/1e9, r.Took.Seconds(), r.MegabytesPerSec(), r.Peak, r.Queues.Seconds(),
		r.Master, r.Slave)
}

// look is the state at a moment.
type look struct {
	at          time.Time
	end         int64 // up to where the slave has the log, -1 while it is not connected
	master, cpu time.Duration
}

// CatchUp watches a slave, of which the master has no other one, until it has all that the master has now, and its queues
// have entries for all of it. Nothing should be sent meanwhile. It is called before the slave connects, which may be before
// it runs.
func CatchUp(ctx context.Context, o CatchUpOptions) (*CatchUpReport, error) {
	if o.status == nil {
		c := client.New(client.Options{CallTimeout: 5 * time.Second, ConnectTimeout: 5 * time.Second})
		defer c.Close() // nothing is under way
		o.info = c.RuntimeInfo
		o.status = func(ctx context.Context, addr string) (*body.HARuntimeInfo, error) {
			answer, err := c.Do(ctx, addr, codec.NewRequest(codec.ReqGetBrokerHAStatus))
			if err != nil {
				return nil, err
			}
			info := &body.HARuntimeInfo{}
			return info, body.Decode(answer.Body, info)
		}
	}
	end, now, err := o.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("bench: catchup: master: %w", err)
	}
	if now.end >= end {
		return nil, errors.New("bench: catchup: the slave has all of it already")
	}
	r, begin := &CatchUpReport{}, now
	var seen []look
	for deadline := time.Now().Add(o.Wait); ; {
		if !wait(ctx, catchUpPause) {
			return nil, ctx.Err()
		}
		last := now.end
		if _, now, err = o.look(ctx); err != nil {
			return nil, fmt.Errorf("bench: catchup: master: %w", err)
		}
		switch {
		case now.end > last:
			deadline = time.Now().Add(o.Wait)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("bench: catchup: no progress for %v: the slave is at %d of %d", o.Wait, now.end, end)
		}
		if begin.end < 0 || now.end <= begin.end {
			begin = now
			continue
		}
		if seen = append(seen, now); len(seen) == 1 {
			seen = []look{begin, now}
		}
		r.note(seen)
		if now.end >= end {
			break
		}
	}
	return r, r.finish(ctx, &o, seen)
}

// note takes the last look over.
func (r *CatchUpReport) note(seen []look) {
	begin, now := seen[0], seen[len(seen)-1]
	r.Bytes, r.Took = now.end-begin.end, now.at.Sub(begin.at)
	for _, l := range seen {
		if d := now.at.Sub(l.at); d >= 500*time.Millisecond && d < time.Second {
			r.Peak = max(r.Peak, float64(now.end-l.end)/1e6/d.Seconds())
			break
		}
	}
}

// finish waits for the queues.
func (r *CatchUpReport) finish(ctx context.Context, o *CatchUpOptions, seen []look) error {
	begin, copied := seen[0], seen[len(seen)-1]
	for deadline := time.Now().Add(o.Wait); ; {
		table, err := o.info(ctx, o.Slave)
		if err == nil {
			var behind int64
			if behind, err = strconv.ParseInt(table["dispatchBehindBytes"], 10, 64); err == nil && behind <= 0 {
				break
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("bench: catchup: the queues of the slave are not complete after %v: %w", o.Wait, err)
		}
		if !wait(ctx, queuesPause) {
			return ctx.Err()
		}
	}
	r.Queues = time.Since(begin.at)
	_, now, err := o.look(ctx)
	gb := float64(r.Bytes) / 1e9
	r.Master, r.Slave = (copied.master-begin.master).Seconds()/gb, (now.cpu-begin.cpu).Seconds()/gb
	return err
}

// look asks the master; end is that of its log.
func (o *CatchUpOptions) look(ctx context.Context) (end int64, l look, err error) {
	info, err := o.status(ctx, o.Master)
	if err != nil {
		return 0, l, err
	}
	l.at, l.end = time.Now(), -1
	for _, c := range info.HAConnectionInfo {
		l.end = max(l.end, int64(c.SlaveAckOffset))
	}
	if o.MasterPID != 0 {
		if l.master, err = processCPU(o.MasterPID); err != nil {
			return 0, l, err
		}
	}
	if o.SlavePID != 0 {
		l.cpu, err = processCPU(o.SlavePID)
	}
	return int64(info.MasterCommitLogMaxOffset), l, err
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
