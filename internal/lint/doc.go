// Package lint holds this project's own rules as tests: what may import what, how long a function may be, what must be
// documented, which links must lead somewhere.
//
// It promises that "go test ./internal/lint" names every breach with its place and says what to do instead. It has no
// code of its own besides the tests; general mistakes are left to go vet and staticcheck.
package lint
