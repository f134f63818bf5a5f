package suite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const usageText = `usage: skylark bench suite --targets NAME=HOST:PORT[@PID[+PID OF A SLAVE...]],... [flags]
       skylark bench suite --start NAME=BINARY[,KEY=VALUE...] [--start ...] [flags]

Runs workloads against the brokers in turns and prints medians and the ratios of the first to the others.
`

// Main is the command: it reads the flags, runs, prints the table to stdout and progress to stderr. An ErrUsage names
// the wrong flag; flag.ErrHelp says that help was asked for and printed.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o Options
	var c command
	if err := c.parse(&o, args, stdout, stderr); err != nil || c.list {
		return err
	}
	o.Args = slices.Concat([]string{"skylark", "bench", "suite"}, args)
	if !c.quiet {
		o.Progress = func(line string) { fmt.Fprintln(stderr, line) }
	}
	for _, dir := range []string{c.out, o.Profile} { // before the load, not after it
		if dir != "" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
	}
	res, err := Run(ctx, o)
	if res == nil {
		return err
	}
	return errors.Join(err, c.print(res, stdout))
}

// command is what the flags say beside the options.
type command struct {
	out   string
	json  bool
	quiet bool
	list  bool
}

func (c *command) parse(o *Options, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("skylark bench suite", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints the error
	fs.Func("targets", "`LIST` of NAME=HOST:PORT[@PID[+PID OF A SLAVE...]] by comma: brokers that run", func(v string) error {
		list, err := ParseTargets(v)
		o.Targets = append(o.Targets, list...)
		return err
	})
	fs.Func("start", "`NAME=BINARY[,KEY=VALUE...]` of a broker to start on a free port, repeatable", func(v string) error {
		s, err := ParseStart(v)
		o.Targets = append(o.Targets, s)
		return err
	})
	fs.Func("only", "`LIST` of workloads by comma, * and ? stand for any characters", func(v string) error {
		o.Only = append(o.Only, strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })...)
		if len(o.Only) == 0 {
			return errors.New("no name in it")
		}
		return nil
	})
	scale := fs.Float64("scale", 1, "`FACTOR` of all counts and durations")
	rounds := fs.Int("rounds", 3, "`N` times that each workload is measured on each broker")
	fs.StringVar(&o.Micro, "micro", "", "`FILE` with the output of go test -bench, for the report")
	fs.StringVar(&o.Profile, "cpuprofile", "", "`DIR` for a CPU profile NAME.prof of each broker of --start")
	fs.StringVar(&o.Note, "note", "", "`TEXT` for the report: disk, what else the machine does")
	fs.StringVar(&c.out, "out", "", "`DIR` for suite.md and suite.json")
	fs.BoolVar(&c.json, "json", false, "print JSON in place of the table")
	fs.BoolVar(&c.quiet, "quiet", false, "no line for each measurement")
	fs.BoolVar(&c.list, "list", false, "print the workloads and end")
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
	if c.list {
		for _, w := range workloads {
			fmt.Fprintf(stdout, "%-16s %s\n", w.name, w.about)
		}
		return nil
	}
	if *scale == 0 { // Validate takes it for "not given"
		return usage("scale", "0 is not in [%g, %g]", minScale, float64(maxScale))
	}
	if *rounds == 0 {
		return usage("rounds", "0 is not in [1, %d]", maxRounds)
	}
	o.Scale, o.Rounds = *scale, *rounds
	return o.Validate()
}

// print writes the report to stdout and to --out.
func (c *command) print(r *Result, stdout io.Writer) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	var md strings.Builder
	if err := r.Markdown(&md); err != nil {
		return err
	}
	if c.out != "" {
		if err := os.WriteFile(filepath.Join(c.out, "suite.json"), text, 0o644); err != nil {
			return fmt.Errorf("suite: --out: %w", err)
		}
		if err := os.WriteFile(filepath.Join(c.out, "suite.md"), []byte(md.String()), 0o644); err != nil {
			return fmt.Errorf("suite: --out: %w", err)
		}
	}
	if c.json {
		_, err = stdout.Write(text)
	} else {
		_, err = io.WriteString(stdout, md.String())
	}
	return err
}
