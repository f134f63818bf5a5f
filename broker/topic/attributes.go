package topic

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// attribute tells which values an attribute may have (Java TopicAttributes).
type attribute struct {
	values []string // nil: a number
	fixed  bool     // may be set when the topic is made, not changed later
}

var attributes = map[string]attribute{
	"queue.type":     {values: []string{"BatchCQ", "SimpleCQ"}, fixed: true},
	"cleanup.policy": {values: []string{"DELETE", "COMPACTION"}},
	"message.type":   {values: []string{"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}},
	"reserve.time":   {},
}

// AlterAttributes applies "+key=value,-key" to a topic's attributes (request code 17). Unknown keys and values are
// ErrInvalid and change nothing.
func AlterAttributes(old map[string]string, change string) (map[string]string, error) {
	if strings.TrimSpace(change) == "" {
		return old, nil
	}
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	for part := range strings.SplitSeq(change, ",") {
		part = strings.TrimSpace(part)
		key, value, hasValue := strings.Cut(part, "=")
		switch {
		case strings.HasPrefix(key, "+") && hasValue:
			if err := setAttribute(out, old, key[1:], value); err != nil {
				return nil, err
			}
		case strings.HasPrefix(key, "-") && !hasValue:
			if _, ok := attributes[key[1:]]; !ok {
				return nil, fmt.Errorf("%w: unsupported key: %s", ErrInvalid, key[1:])
			}
			delete(out, key[1:])
		default:
			return nil, fmt.Errorf("%w: attribute %q is neither +key=value nor -key", ErrInvalid, part)
		}
	}
	return out, nil
}

// MergeAttributes applies the attributes of a request body, where keys carry the sign: {"+key":"value","-key":""}.
// Plain keys are set.
func MergeAttributes(old, change map[string]string) (map[string]string, error) {
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range change {
		if name, ok := strings.CutPrefix(key, "-"); ok {
			delete(out, name)
			continue
		}
		if err := setAttribute(out, old, strings.TrimPrefix(key, "+"), value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func setAttribute(out, old map[string]string, key, value string) error {
	a, ok := attributes[key]
	if !ok {
		return fmt.Errorf("%w: unsupported key: %s", ErrInvalid, key)
	}
	if a.values == nil {
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return fmt.Errorf("%w: attribute %s has the value %q, which is no number", ErrInvalid, key, value)
		}
	} else if !slices.Contains(a.values, value) {
		return fmt.Errorf("%w: value of attribute %s is not in set %v: %s", ErrInvalid, key, a.values, value)
	}
	if was, had := old[key]; a.fixed && had && was != value {
		return fmt.Errorf("%w: attempt to update an unchangeable attribute. key: %s", ErrInvalid, key)
	}
	out[key] = value
	return nil
}
