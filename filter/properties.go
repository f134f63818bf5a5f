package filter

// Properties gives a SQL condition the properties of one message. A hot path implements it over the
// stored property text, so that no map is built; Match asks for one name at a time and at most once per
// mention in the expression.
type Properties interface {
	// Lookup returns the value of a property in exact case, and false if the message has no such
	// property. The value is read before the next Lookup and never kept or changed, so it may alias a
	// mapped file.
	Lookup(name string) (value []byte, ok bool)
}

// The expression types of a subscription (Java: ExpressionType).
const (
	TypeTag   = "TAG"
	TypeSQL92 = "SQL92"
)

// IsTagType says whether a subscription's expression type means tags: "TAG" or empty, which older clients
// send (Java: ExpressionType.isTagType).
func IsTagType(expressionType string) bool {
	return expressionType == "" || expressionType == TypeTag
}

// noProperties stands for a message without any property.
type noProperties struct{}

func (noProperties) Lookup(string) ([]byte, bool) { return nil, false }
