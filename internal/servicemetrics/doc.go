// Package servicemetrics gives metrics of services: counts by state for all of them, and series by namespace,
// Microservice and group for a bounded number. They are made from the cache of the manager when they are scraped;
// nothing is written.
//
//	collector.go  the collector: reads the cache, and bounds the series
//	series.go     the metrics, and the series of a scrape
//	progress.go   what is counted from one scrape to the next: deployments, failures, restores, waits. Pure
package servicemetrics
