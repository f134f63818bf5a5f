// Package rig has what the black-box tests below test/ share: where they find and build things, and the processes they run.
//
// Their environment is the same for all: SKYLARK names the binary under test (bin/skylark of the checkout if that is empty;
// built when it is missing), INTEROP_WORK the directory of what is fetched or built once (test/interop/.work). The tests
// have to be in a package two directories below the module, as go test runs them there.
package rig
