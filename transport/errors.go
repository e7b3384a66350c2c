package transport

import (
	"errors"
	"fmt"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// coded makes an error that travels.
func coded(code wire.Code, format string, args ...any) *wire.Error {
	return &wire.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// protocolError says how a client broke the protocol.
func protocolError(format string, args ...any) *wire.Error {
	return coded(wire.CodeProtocol, format, args...)
}

// travelling is err as a client is told it: a coded error as it is, anything else under code.
func travelling(err error, code wire.Code) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return &wire.Error{Code: code, Message: err.Error()}
}

// endedBy says why a reader could not be opened or go on.
func endedBy(err error) *wire.Error {
	var gone *tipstore.GoneError
	if errors.As(err, &gone) {
		return &wire.Error{Code: wire.CodeGone, Detail: gone.Oldest, Message: err.Error()}
	}
	return travelling(err, wire.CodeInternal)
}

// refusedAs is the outcome of a batch or a producer that the broker did not take: not executed.
func refusedAs(err error) wire.Code {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return wire.Code(fsm.Unavailable)
}
