// Package configs holds configuration files to copy: a development node, a single node, three nodes, and the JSON schema
// that editors complete and check them with.
//
// It promises that every file here loads. It holds no code: reading a configuration is the business of internal/config.
package configs

import _ "embed"

// Dev is dev.yaml, the configuration of "cantus serve --dev".
//
//go:embed dev.yaml
var Dev []byte
