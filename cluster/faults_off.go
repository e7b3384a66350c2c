//go:build !faults

package cluster

func hurt(s stores) stores { return s }
