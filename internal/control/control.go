// Package control asks a node's control plane over HTTP.
//
// It promises that an error names the request, the node asked and the node's own words. It does not retry and it keeps no
// connection state: every command of the command line is one or a few requests.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 256 << 20

// Client asks one node, or the first of several that answers. Safe for concurrent use.
type Client struct {
	bases []string
	http  *http.Client
}

// New takes base addresses, "host:port" or "http://host:port".
func New(addrs []string) (*Client, error) {
	c := &Client{http: &http.Client{}}
	for _, addr := range addrs {
		base := addr
		if !strings.Contains(base, "://") {
			base = "http://" + base
		}
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("control plane address %q is not host:port or http://host:port", addr)
		}
		c.bases = append(c.bases, strings.TrimRight(base, "/"))
	}
	if len(c.bases) == 0 {
		return nil, errors.New("no control plane address given")
	}
	return c, nil
}

// Refused is a node's answer other than success.
type Refused struct {
	Request string // "GET http://127.0.0.1:4791/v1/status"
	Status  int    // HTTP status
	Code    string // the stable word, empty if the answer had none
	Message string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("%s: %s (status %d)", e.Request, e.Message, e.Status)
}

// Get asks for path (with query) and decodes the answer into v.
func (c *Client) Get(ctx context.Context, path string, v any) error {
	return c.do(ctx, http.MethodGet, path, nil, v)
}

// Post sends body as JSON and decodes the answer into v, unless v is nil.
func (c *Client) Post(ctx context.Context, path string, body, v any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", path, err)
	}
	return c.do(ctx, http.MethodPost, path, b, v)
}

// Delete removes what path names and decodes the answer into v, unless v is nil.
func (c *Client) Delete(ctx context.Context, path string, v any) error {
	return c.do(ctx, http.MethodDelete, path, nil, v)
}

// do tries the nodes in turn until one is reached. Only a connection that was never made moves on to the next: a request
// that was sent may have been executed.
func (c *Client) do(ctx context.Context, method, path string, body []byte, v any) error {
	var errs []error
	for _, base := range c.bases {
		resp, err := c.send(ctx, method, base+path, body)
		if err != nil {
			errs = append(errs, err)
			if method == http.MethodGet && ctx.Err() == nil || isDialError(err) {
				continue
			}
			break
		}
		return answer(method+" "+base+path, resp, v)
	}
	return errors.Join(errs...)
}

func (c *Client) send(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the control plane: %w (is the node up? --http or CANTUS_HTTP names another)", err)
	}
	return resp, nil
}

func answer(request string, resp *http.Response, v any) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: read the answer: %w", request, err)
	}
	if resp.StatusCode/100 != 2 {
		return refusal(request, resp.StatusCode, body)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: the answer is not what a Cantus node says: %w", request, err)
	}
	return nil
}

func refusal(request string, status int, body []byte) error {
	var p struct {
		Error struct{ Code, Message string }
	}
	r := &Refused{Request: request, Status: status}
	if json.Unmarshal(body, &p) == nil && p.Error.Message != "" {
		r.Code, r.Message = p.Error.Code, p.Error.Message
		return r
	}
	r.Message = fmt.Sprintf("%s: %.200q", http.StatusText(status), body)
	return r
}

// isDialError says whether err came before a byte was sent.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
