// Package lint holds the house rules as a test: who may import whom, sizes of files, functions and lines, package
// comments, no file access past the seam, no sleeping tests. A rule that fights a task is changed here, with its reason.
package lint
