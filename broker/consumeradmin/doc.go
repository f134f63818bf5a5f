// Package consumeradmin computes what operators ask about consumer groups (Java AdminBrokerProcessor, spec
// request-codes.md §7): progress and lag of a group or of all groups, the age of what waits, offsets to begin
// with beside other groups, the entries of a ConsumeQueue. It reads the broker's tables and changes none but the
// offsets that CloneOffsets copies.
package consumeradmin
