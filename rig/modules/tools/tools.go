//go:build tools

// Package tools pins the programs that a control plane needs beside Kubernetes.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
