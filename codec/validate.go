package codec

import (
	"fmt"
	"strings"
	"unicode"
)

// Length limits of names in characters (Java TopicValidator). The store refuses a topic beyond MaxTopicLength
// unless it is a retry topic, whatever MaxRetryTopicLength says (spec messages.md §7).
const (
	MaxTopicLength      = 127
	MaxRetryTopicLength = 255
	MaxGroupLength      = 120
)

// NameError is a topic or group name that ValidateTopic or ValidateGroup refuses; Error is Java's remark.
type NameError struct{ Remark string }

// Error is the remark for the answer.
func (e *NameError) Error() string { return e.Remark }

// ValidateTopic checks a topic name as Java's TopicValidator.validateTopic does: not blank, letters, digits
// and %|_- only, at most MaxTopicLength characters, MaxRetryTopicLength for retry and dead-letter topics. The
// error is a *NameError with Java's remark.
func ValidateTopic(topic string) error {
	if isBlank(topic) {
		return &NameError{"The specified topic is blank."}
	}
	if !validNameChars(topic) {
		return &NameError{fmt.Sprintf(
			"The specified topic: %s, contains illegal characters, allowing only ^[%%|a-zA-Z0-9_-]+$", topic)}
	}
	if IsRetryTopic(topic) || IsDLQTopic(topic) {
		if len(topic) > MaxRetryTopicLength {
			return &NameError{fmt.Sprintf("The specified topic is DLQ or Retry topic: %s, and it's longer than "+
				"topic max length: %d", topic, MaxRetryTopicLength)}
		}
		return nil
	}
	if len(topic) > MaxTopicLength {
		return &NameError{fmt.Sprintf("The specified topic: %s, is longer than topic max length: %d", topic,
			MaxTopicLength)}
	}
	return nil
}

// ValidateGroup is ValidateTopic for the name of a consumer group, with MaxGroupLength.
func ValidateGroup(group string) error {
	if isBlank(group) {
		return &NameError{"The specified group is blank."}
	}
	if !validNameChars(group) {
		return &NameError{fmt.Sprintf(
			"The specified group: %s, contains illegal characters, allowing only ^[%%|a-zA-Z0-9_-]+$", group)}
	}
	if len(group) > MaxGroupLength {
		return &NameError{fmt.Sprintf("The specified group: %s, is longer than group max length: %d", group,
			MaxGroupLength)}
	}
	return nil
}

func isBlank(s string) bool { return strings.TrimFunc(s, unicode.IsSpace) == "" }

// validNameChars tells whether s has only [%|a-zA-Z0-9_-]; its length in bytes is then that in characters.
func validNameChars(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '%', c == '|', c == '_',
			c == '-':
		default:
			return false
		}
	}
	return true
}
