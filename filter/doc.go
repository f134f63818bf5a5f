// Package filter decides which messages a consumer gets: by tag, by a SQL92 condition over the message
// properties, and by the bloom bits that ConsumeQueueExt keeps so that a condition need not be evaluated
// twice.
//
// It is pure: values in, values out, no I/O, no clock, no goroutine, and no import from this module. Compiled
// filters never change after they are made, so any number of goroutines may use one.
//
// # Tags
//
// ParseTags turns "A || B" into a Tags (Java: FilterAPI.buildSubscriptionData). The ConsumeQueue holds
// only the hash of a tag (TagHash, Java's String.hashCode), therefore Tags.MatchCode may let a foreign
// tag pass that has the same hash; clients compare the text again. Tags.MatchTag compares the text.
//
// # SQL92
//
// Compile reads the dialect of Java's SelectorParser.jj, lowest precedence first:
//
//	or          = and { OR and }
//	and         = equality { AND equality }
//	equality    = comparison { ("=" | "<>") comparison | IS [NOT] NULL }
//	comparison  = unary { (">" | ">=" | "<" | "<=") unary
//	                    | [NOT] BETWEEN unary AND unary
//	                    | [NOT] IN "(" string { "," string } ")"
//	                    | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string }
//	unary       = { "+" | "-" | NOT } primary
//	primary     = string | integer | float | TRUE | FALSE | NULL | property | "(" or ")"
//
//	property    = [A-Za-z_$][A-Za-z0-9_$]*          exact case; keywords are of any case
//	string      = 'it''s'                           two quotes stand for one
//	integer     = 0 | [1-9][0-9]*[lL]?              at most 2^63-1; "0x1F" and "017" are a 0 and other text
//	float       = 1.5  1.  .5  1e3                  not 0 and not beyond float64
//	comments    = "-- to the end of a line" and "/* … */"
//
// NOT binds tighter than a comparison, as in Java: NOT a = 5 means (NOT a) = 5. Text after a complete
// condition is ignored, as in Java ("a = 1 b" is "a = 1", "a = 0x1F" is "a = 0"); SQL.Trailing returns it
// so that a caller can warn.
//
// Values are typed int (32 bit), long, double, boolean, string and null. Properties are always strings.
// Where a string meets a number, the string is read as the type of the number, so '5.5' against 5 is an
// evaluation error; where two strings are ordered, both are read as double; where they are tested for
// equality, their bytes decide. A missing property is null, AND, OR and NOT follow three-valued logic and
// stop at the first operand that decides. SQL.Match answers true only if the condition is TRUE: null and
// errors do not match (Java: ExpressionMessageFilter.isMatchedByCommitLog).
//
// One answer differs from Java 5.3.3 on purpose: a boolean on the left of "=" with a string on the right
// (TRUE = flag) reads the string as boolean, where 5.3.3 throws ClassCastException
// (apache/rocketmq#10877, repaired upstream since). Property values are compared as bytes; Java compares
// them after replacing malformed UTF-8.
//
// # Bloom bits
//
// BloomFilter, BloomFilterData and Bits have Java's numbers and layout, so that ConsumeQueueExt files and
// consumerFilter.json can go back and forth between Java's broker and this one.
package filter
