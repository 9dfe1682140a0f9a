// Package servicemetrics provides metrics of services: counts by state for all of them, and series by namespace,
// Microservice and group for a bounded number. They are computed from the manager's cache at each scrape; nothing
// is written.
//
//	collector.go  the collector: reads the cache, and bounds the series
//	series.go     the metrics, and the series of a scrape
//	progress.go   counts across scrapes: deployments, failures, restores, waits. Pure
package servicemetrics
