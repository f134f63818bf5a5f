package admin

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"skylark/client"
)

// ErrUsage is a wrong flag or argument.
var ErrUsage = errors.New("admin: wrong usage")

const usageText = `usage: skylark admin handover --broker NAME [-n NAMESRV | --controller ADDRS] [--to ID] [--wait 30s]
       skylark admin handover --broker NAME -n NAMESRV --drain [--force]
       skylark admin handover --broker NAME -n NAMESRV --undo

  handover          the master of NAME gives its role to the replica ID, or to any that has everything; no message is
                    lost and no send fails. NAME must have controllers.
  handover --drain  without controllers the role cannot move while brokers run: producers are led to other broker
                    names, then the master can be stopped without a failed send. --undo takes that back.
`

// Options of a command.
type Options struct {
	Broker     string
	Namesrv    []string
	Controller []string
	To         int64
	Wait       time.Duration
	Drain      bool
	Force      bool
	Undo       bool
	// Client talks to all servers. nil: one of its own over TCP.
	Client *client.Client
	// Say prints a line of progress.
	Say func(format string, args ...any)
}

// Main is the command: it reads the flags and runs. An ErrUsage names the wrong flag; flag.ErrHelp says that help was asked
// for and printed.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		fmt.Fprint(stderr, usageText)
		if len(args) == 0 {
			return fmt.Errorf("%w: say what to do: handover", ErrUsage)
		}
		return flag.ErrHelp
	}
	if args[0] != "handover" {
		return fmt.Errorf("%w: there is no %q", ErrUsage, args[0])
	}
	o, err := parse(args[1:], stderr)
	if err != nil {
		return err
	}
	o.Say = func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }
	o.Client = client.New(client.Options{})
	defer o.Client.Close()
	return Run(ctx, o)
}

// Run does what the options say.
func Run(ctx context.Context, o *Options) error {
	switch {
	case o.Undo:
		return undo(ctx, o)
	case o.Drain:
		return drain(ctx, o)
	default:
		return handOver(ctx, o)
	}
}

func parse(args []string, stderr io.Writer) (*Options, error) {
	o := &Options{}
	var namesrv, controller string
	f := flag.NewFlagSet("admin handover", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(stderr, usageText); f.PrintDefaults() }
	f.StringVar(&o.Broker, "broker", "", "broker `NAME`")
	f.StringVar(&namesrv, "n", "", "name server `ADDRS`, host:port separated by ; (default $NAMESRV_ADDR)")
	f.StringVar(&namesrv, "namesrv", "", "the same as -n")
	f.StringVar(&controller, "controller", "", "controller `ADDRS`, instead of name servers")
	f.Int64Var(&o.To, "to", -1, "broker `ID`, as the controllers count, of the new master; -1 is any that has everything")
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "how long the replica may take to catch up")
	f.BoolVar(&o.Drain, "drain", false, "lead producers to other broker names and wait until the master can be stopped")
	f.BoolVar(&o.Force, "force", false, "drain also if some topics are on no other broker name")
	f.BoolVar(&o.Undo, "undo", false, "take --drain back")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%w: %q is no flag", ErrUsage, f.Arg(0))
	case o.Broker == "":
		return nil, fmt.Errorf("%w: --broker is missing", ErrUsage)
	}
	var err error
	if controller != "" {
		if o.Controller, err = client.SplitAddrs(controller); err != nil {
			return nil, fmt.Errorf("%w: --controller: %w", ErrUsage, err)
		}
		if !o.Drain && !o.Undo {
			return o, nil
		}
	}
	if o.Namesrv, err = client.SplitAddrs(cmp.Or(namesrv, os.Getenv("NAMESRV_ADDR"))); err != nil {
		return nil, fmt.Errorf("%w: -n: %w", ErrUsage, err)
	}
	return o, nil
}
