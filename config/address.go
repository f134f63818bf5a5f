package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SplitAddrs reads a list of name servers or controllers as "a:9876;b:9876". Blanks and empty parts are
// skipped, doubles dropped, the order kept. The error names the part that is not host:port; ports are 1 to
// 65535. An IPv6 host stands in brackets.
func SplitAddrs(list string) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(list, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if err := CheckAddr(part); err != nil {
			return nil, err
		}
		if !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return out, nil
}

// CheckAddr tells whether addr is "host:port" with a port from 1 to 65535.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsAny(host, " /\t") {
		return fmt.Errorf("%q is not host:port", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q has no port from 1 to 65535", addr)
	}
	return nil
}

// DelayLevels reads messageDelayLevel: level n+1 is element n. Units are s, m, h and d.
func DelayLevels(text string) ([]time.Duration, error) {
	var out []time.Duration
	for word := range strings.FieldsSeq(text) {
		unit := map[byte]time.Duration{
			's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
		}[word[len(word)-1]]
		n, err := strconv.ParseInt(word[:len(word)-1], 10, 32)
		if err != nil || unit == 0 || n < 0 || time.Duration(n) > (1<<62)/unit {
			return nil, fmt.Errorf("%q is not a number with one of the units s, m, h, d", word)
		}
		out = append(out, time.Duration(n)*unit)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no delay level")
	}
	return out, nil
}

// Hours reads deleteWhen and its kind: hours of day as "04" or "04;16". Java compares with two digits, so "4"
// never comes true there and is refused here.
func Hours(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil || len(part) != 2 || n < 0 || n > 23 {
			return nil, fmt.Errorf("%q is not an hour from 00 to 23", part)
		}
		out = append(out, n)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no hour")
	}
	return out, nil
}
