package main

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// serveGRPC serves sampleapp.v1.Version/Get. The request is empty. The response contains the version, which
// is also in the x-version header. Messages are well-known types, so clients need no generated code.
func (a *App) serveGRPC(listener net.Listener, failed chan<- error) drain {
	calls := grpc.NewServer()
	calls.RegisterService(&grpc.ServiceDesc{
		ServiceName: "sampleapp.v1.Version",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Get", Handler: a.get}},
	}, a)
	go func() { failed <- calls.Serve(listener) }()
	return func(ctx context.Context) error {
		done := make(chan struct{})
		go func() { defer close(done); calls.GracefulStop() }()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			calls.Stop()
			return fmt.Errorf("calls were in progress: %w", ctx.Err())
		}
	}
}

func (a *App) get(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // The order of grpc.MethodDesc.
	if err := decode(new(emptypb.Empty)); err != nil {
		return nil, err
	}
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-version", a.config.Version)); err != nil {
		return nil, err
	}
	return wrapperspb.String(a.config.Version), nil
}
