// Package config reads the .properties files of Java's broker, name server and controller under Java's own
// keys, prints them as Java does, and changes them at run time as UPDATE_BROKER_CONFIG and its kin ask
// (spec store-behaviour.md §10-§16, Java's MixAll.properties2Object and Configuration).
//
// # Structs and tags
//
// Each of Java's configuration classes is a struct; the Go field is Java's word with a capital. Tags:
//
//	prop:"key"    Java's key, verbatim
//	def:"text"    default as it would stand in a file; without it zero or set by the Default… functions
//	one:"a|b"     the only values
//	old:"key"     another key that is read as this one (name in 4.9, or Java's setter name)
//	is:"…"        words, blank between:
//	    lo..hi      range of a number; without it from 0 to the largest int or long
//	    live        a change takes effect at once: whoever uses it asks the Set each time
//	    fixed       never changed by command, whatever configBlackList says: paths, credentials, TLS
//	    secret      printed as ******
//
// Numbers keep Java's units, said in each comment; int is Java's int (32 bits), int64 its long.
//
// # Files
//
// [Parse] takes Java's format: # and ! comments, '=', ':' or blank between key and value, backslash
// escapes, continuation lines. Unlike Java's Properties.load it reads UTF-8, and falls back to Latin-1, as
// Java reads everything, if a file is not UTF-8 (comments in GBK are common). Values are trimmed. One file
// feeds all structs of a [Set]; a key that several have, as listenPort, goes to each.
//
// Java ignores what it does not understand, without a word. Here an unknown key is a warning that names the
// nearest known one, and a value of the wrong type or out of range stops the start. All problems of a file
// are reported at once, with file and line.
//
// # Run time
//
// A [Set] hands out immutable snapshots: [Get] is an atomic load, so hot paths may call it per request, and
// must when they want to see live keys change. [Set.Apply] changes all the given keys or none. Keys that
// are not live change in what is printed and saved, but not in the running snapshot, until the next start.
package config
