package main

import (
	"fmt"
	"time"
)

// Faults are the faults that can be changed at runtime.
type Faults struct {
	// FailReadiness makes /readyz respond with 503.
	FailReadiness bool `json:"failReadiness"`
	// ErrorRate is the share of requests that get a 500 response, from 0 to 1.
	ErrorRate float64 `json:"errorRate"`
	// Latency is a delay from 0 to 30s that is added to all responses except those for health checks and metrics.
	Latency Duration `json:"latency"`
}

func (f Faults) validate() error {
	if !(f.ErrorRate >= 0 && f.ErrorRate <= 1) { // This form of the condition rejects NaN.
		return fmt.Errorf("check errorRate: must be 0 to 1, not %v", f.ErrorRate)
	}
	return checkLatency(time.Duration(f.Latency))
}

func checkLatency(latency time.Duration) error {
	if latency < 0 || latency > maxLatency {
		return fmt.Errorf("check latency: must be 0s to %s, not %s", maxLatency, latency)
	}
	return nil
}

// Duration is a time.Duration that is encoded in JSON as a string, such as "200ms".
type Duration time.Duration

// MarshalText formats the duration as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText accepts the format of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
