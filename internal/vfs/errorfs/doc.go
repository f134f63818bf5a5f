// Package errorfs makes chosen file operations fail, stall or write half of what they should. It wraps any
// vfs.FS; the files and mappings it hands out are wrapped too.
//
// What fails is said by an Injector. The usual one is parsed from a small expression, so that a test reads
// as a sentence:
//
//	fsys := errorfs.Wrap(vfs.NewMem(), errorfs.MustParse(`(sync|msync "*/commitlog/*" after 3 err EIO)`))
//
// An expression is any number of rules. A rule is a list of operations, joined by "|", an optional path
// pattern in double quotes, and clauses in any order:
//
//	rule    = "(" kinds [ pattern ] { clause } ")"
//	kinds   = kind { "|" kind }
//	clause  = "after" N        the first N matching calls pass
//	        | "nth" N          only the N-th matching call (from 1); the same as after N-1 once
//	        | "every" N        of the calls that are left, the N-th, 2N-th, ...
//	        | "once"           fires one time; the same as times 1
//	        | "times" N        fires N times
//	        | "prob" P "seed" N   fires with probability P (0 < P <= 1), drawn from a seeded generator
//	        | "err" NAME       the error; see below
//	        | "late"           the operation is done first, then reported as failed
//	        | "short" N        a write puts down at most N bytes first (kinds must be write alone)
//	        | "delay" D        waits first, as 10ms (see WithSleep)
//	        | "call" NAME      calls the function registered by WithHook first, and fails with what it returns
//
// A rule has at least one of err, delay and call. Kinds are those of type Kind, and "any" and "change"
// (every call that changes files or names). In a pattern "*" is any run of characters, slashes too, and "?"
// any one; without a pattern every path matches. A rename matches by its old or its new name. Text from ";"
// to the end of the line is a comment.
//
// Every rule counts its own calls, from its parsing on, and sees every call, also one that an earlier rule
// makes fail. The first rule with an error decides which error it is.
//
// Stores into a mapping cannot be intercepted. To keep reads from going around the faults, Fd is always -1.
package errorfs
