// Package persist reads and writes small JSON files: those under config/ of a broker and kvConfig.json of a
// name server (Java ConfigManager, spec store.md §10).
//
// Java copies the old text to .bak and then overwrites the file in place, so a power cut can leave a file of zeros, or
// new text with an old tail (apache/rocketmq#9328, #10258). Here a file is written under a temporary name, synced and
// renamed. Files that Java damaged are read from their backup; what is damaged is kept aside, never overwritten.
package persist
