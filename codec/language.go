package codec

import "strconv"

// LanguageCode is the sender's implementation language (Java LanguageCode). Numbers beyond the table are kept
// and treated as LanguageOther.
type LanguageCode uint8

// The codes in Java's order (spec wire.md §5).
const (
	LanguageJava LanguageCode = iota
	LanguageCPP
	LanguageDotNet
	LanguagePython
	LanguageDelphi
	LanguageErlang
	LanguageRuby
	LanguageOther
	LanguageHTTP
	LanguageGo
	LanguagePHP
	LanguageOMS
	LanguageRust
	LanguageNodeJS
)

var languageNames = [...]string{"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER",
	"HTTP", "GO",
	"PHP", "OMS", "RUST", "NODE_JS"}

// String is Java's enum name; "OTHER" for a number that Java does not know.
func (l LanguageCode) String() string {
	if int(l) < len(languageNames) {
		return languageNames[l]
	}
	return "OTHER"
}

// parseLanguage takes an enum name or an ordinal; anything else is LanguageOther (Java: null, tolerated).
func parseLanguage(text []byte) LanguageCode {
	for i, n := range languageNames {
		if string(text) == n {
			return LanguageCode(i)
		}
	}
	if n, err := strconv.ParseUint(string(text), 10, 8); err == nil {
		return LanguageCode(n)
	}
	return LanguageOther
}

// MarshalText is String, so that JSON bodies carry the name.
func (l LanguageCode) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText takes a name or an ordinal; anything else is LanguageOther.
func (l *LanguageCode) UnmarshalText(text []byte) error {
	*l = parseLanguage(text)
	return nil
}
