package filter

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// SubAll is the subscription to every message of a topic (Java: SubscriptionData.SUB_ALL).
	SubAll = "*"
	// MaxTagExpressionBytes bounds the text that ParseTags takes; the result needs at most some 20 times
	// as much memory. Java has no bound but the size of a request.
	MaxTagExpressionBytes = 128 << 10

	tagSeparator   = "||"
	linearCodesMax = 8  // up to this many codes a scan beats a binary search
	linearTagsMax  = 16 // up to this many tags a scan for doubles beats a map
)

// Tags is a parsed tag subscription: everything, or a set of tags and of their hash codes. The zero value
// matches nothing.
type Tags struct {
	all   bool
	tags  []string // as trimmed, each once, in order of appearance
	codes []int32  // ascending, each once
}

// ParseTags reads the subscription text of type TAG: "*" or empty for all, else tags separated by "||",
// each without surrounding blanks and control characters (Java: FilterAPI.buildSubscriptionData). As in
// Java a blank text such as " " or a "*" with blanks around is a list without or with an ordinary tag,
// not a subscription to all, and a text of nothing but separators is refused with ErrTagExpression.
func ParseTags(subString string) (Tags, error) {
	if subString == "" || subString == SubAll {
		return Tags{all: true}, nil
	}
	if len(subString) > MaxTagExpressionBytes {
		return Tags{}, fmt.Errorf("%w: %d bytes, the limit is %d",
			ErrTagExpression, len(subString), MaxTagExpressionBytes)
	}
	var (
		t        Tags
		onlySeps = true
		seen     map[string]struct{} // of t.tags, if they may be many
	)
	if strings.Count(subString, tagSeparator) > linearTagsMax {
		seen = map[string]struct{}{}
	}
	for part := range strings.SplitSeq(subString, tagSeparator) {
		onlySeps = onlySeps && part == ""
		tag := strings.TrimFunc(part, func(r rune) bool { return r <= ' ' }) // Java's String.trim
		if tag == "" {
			continue
		}
		dup := false
		if seen == nil {
			dup = slices.Contains(t.tags, tag)
		} else {
			_, dup = seen[tag]
			seen[tag] = struct{}{}
		}
		if dup {
			continue
		}
		t.tags = append(t.tags, tag)
		t.codes = append(t.codes, TagHash(tag))
	}
	if onlySeps {
		return Tags{}, fmt.Errorf("%w: %q has separators only", ErrTagExpression, shorten(subString))
	}
	t.normalize()
	return t, nil
}

// WithCodes returns t with further hash codes in its code set: those which a client sent in its codeSet, or
// TagHashGo of each tag. It widens what MatchCode lets pass and leaves MatchTag alone.
func (t Tags) WithCodes(codes ...int32) Tags {
	t.codes = slices.Concat(t.codes, codes)
	t.normalize()
	return t
}

// WithGoCodes returns t with TagHashGo of each tag added, for a code set that equals what either client would
// compute.
func (t Tags) WithGoCodes() Tags {
	codes := make([]int32, len(t.tags))
	for i, tag := range t.tags {
		codes[i] = TagHashGo(tag)
	}
	return t.WithCodes(codes...)
}

func (t *Tags) normalize() {
	slices.Sort(t.codes)
	t.codes = slices.Compact(t.codes)
}

// All says whether every message matches.
func (t Tags) All() bool { return t.all }

// Tags returns the tags, each once, in order of appearance (Java: tagsSet). It is empty if All. Do not
// change it.
func (t Tags) Tags() []string { return t.tags }

// Codes returns the hash codes, each once, ascending (Java: codeSet). It is empty if All. Do not change it.
func (t Tags) Codes() []int32 { return t.codes }

// SubString returns the text that Java puts into SubscriptionData.subString when it has to build one: "*"
// or the tags joined by " || ".
func (t Tags) SubString() string {
	if t.all {
		return SubAll
	}
	return strings.Join(t.tags, " "+tagSeparator+" ")
}

// MatchCode tests the tagsCode of a ConsumeQueue unit, of which the low 32 bits are the hash of the tag
// and 0 means no tag (Java: DefaultMessageFilter and ExpressionMessageFilter.isMatchedByConsumeQueue). A
// foreign tag of equal hash passes.
func (t Tags) MatchCode(tagsCode int64) bool {
	if t.all {
		return true
	}
	code := int32(tagsCode)
	if len(t.codes) > linearCodesMax {
		_, found := slices.BinarySearch(t.codes, code)
		return found
	}
	return slices.Contains(t.codes, code)
}

// MatchTag tests the text of a message's tag, as clients do after MatchCode. A message without tag has a
// nil tag.
func (t Tags) MatchTag(tag []byte) bool {
	if t.all {
		return true
	}
	for _, want := range t.tags {
		if want == string(tag) {
			return true
		}
	}
	return false
}
