//go:build tools

// Package metricsserver pins the program behind the metrics API.
package metricsserver

import _ "sigs.k8s.io/metrics-server/cmd/metrics-server"
