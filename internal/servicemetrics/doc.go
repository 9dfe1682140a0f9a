// Package servicemetrics provides service metrics: the number of groups by state across all services and, unless there are too many services,
// series by namespace, Microservice and group. The metrics are computed from the manager's cache at each scrape. The package writes nothing.
//
// collector.go  the collector, which reads the cache and limits the number of series
// series.go     the metrics, and the series of a scrape
// progress.go   counters that persist across scrapes: deployments, failures, restores and waits; uses no clock and no client
package servicemetrics
