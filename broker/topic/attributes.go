package topic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// attribute tells which values an attribute may have (Java TopicAttributes).
type attribute struct {
	values []string
	fixed  bool // can be set when the topic is made, not changed later
}

// Attribute names that the broker looks at, and values of theirs.
const (
	attributeQueueType     = "queue.type"
	attributeCleanupPolicy = "cleanup.policy"
	attributeMessageType   = "message.type"
	attributeReserveTime   = "reserve.time"

	queueTypeBatch   = "BatchCQ"
	policyCompaction = "COMPACTION"
	messageTypeMixed = "MIXED"
)

var attributes = map[string]attribute{
	attributeQueueType:     {values: []string{queueTypeBatch, "SimpleCQ"}, fixed: true},
	attributeCleanupPolicy: {values: []string{"DELETE", policyCompaction}, fixed: true},
	attributeMessageType: {values: []string{"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION",
		messageTypeMixed}},
}

// AlterAttributes applies "+key=value,-key" (request code 17) to the attributes of the topic as it is, nil
// when it does not exist yet. Unknown keys and values are ErrInvalid and change nothing.
func (m *Manager) AlterAttributes(t *Topic, change string) (map[string]string, error) {
	changes := map[string]string{}
	for part := range strings.SplitSeq(change, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, hasValue := strings.Cut(part, "=")
		if plus := strings.HasPrefix(key, "+"); plus != hasValue || !plus && !strings.HasPrefix(key, "-") {
			return nil, fmt.Errorf("%w: attribute %q is neither +key=value nor -key", ErrInvalid, part)
		}
		if _, twice := changes[key]; twice {
			return nil, fmt.Errorf("%w: key duplication: %s", ErrInvalid, key)
		}
		changes[key] = value
	}
	return m.MergeAttributes(t, changes)
}

// MergeAttributes applies the attributes of a request body (request code 18), where keys carry the sign:
// {"+key":"value","-key":""}.
func (m *Manager) MergeAttributes(t *Topic, change map[string]string) (map[string]string, error) {
	var old map[string]string
	if t != nil {
		old = t.Config.Attributes
	}
	if len(change) == 0 {
		return old, nil
	}
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	seen := map[string]bool{}
	for _, signed := range slices.Sorted(maps.Keys(change)) {
		if len(signed) < 2 || signed[0] != '+' && signed[0] != '-' {
			return nil, fmt.Errorf("%w: wrong format key: %q", ErrInvalid, signed)
		}
		sign, key := signed[0], signed[1:]
		if seen[key] {
			return nil, fmt.Errorf("%w: alter duplication key. key: %s", ErrInvalid, key)
		}
		seen[key] = true
		if err := m.checkAttribute(t, sign, key, change[signed]); err != nil {
			return nil, err
		}
		if sign == '-' {
			delete(out, key)
		} else {
			out[key] = change[signed]
		}
	}
	return out, nil
}

func (m *Manager) checkAttribute(t *Topic, sign byte, key, value string) error {
	if key == attributeReserveTime {
		return fmt.Errorf("%w: Update topic reserveTime not supported", ErrInvalid) // it belongs to tiered storage
	}
	a, ok := attributes[key]
	if !ok {
		return fmt.Errorf("%w: unsupported key: %s", ErrInvalid, key)
	}
	if t == nil && sign == '-' {
		return fmt.Errorf("%w: only add attribute is supported while creating topic. key: %s", ErrInvalid, key)
	}
	has := false
	if t != nil {
		var was string
		was, has = t.Config.Attributes[key]
		if a.fixed && (sign == '-' || was != value) {
			return fmt.Errorf("%w: attempt to update an unchangeable attribute. key: %s", ErrInvalid, key)
		}
	}
	switch {
	case sign == '-' && !has:
		return fmt.Errorf("%w: attempt to delete a nonexistent key: %s", ErrInvalid, key)
	case sign == '+' && !slices.Contains(a.values, value):
		return fmt.Errorf("%w: value of attribute %s is not in set %v: %s", ErrInvalid, key, a.values, value)
	case sign == '+' && key == attributeMessageType && value == messageTypeMixed && !m.o.MixedMessageType:
		return fmt.Errorf("%w: MIXED message type is not supported.", ErrInvalid)
	}
	return nil
}
