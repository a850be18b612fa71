/** Types for the parts of Express that the tests use. Express ships no types. */
declare module 'express' {
  import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';

  interface Response extends ServerResponse {
    send(body: string): Response;
  }
  type Handler = (request: IncomingMessage, response: Response, next: (error?: unknown) => void) => unknown;
  interface Application extends RequestListener {
    get(path: string, handler: Handler): Application;
    use(handler: Handler): Application;
    use(path: string, handler: Handler): Application;
  }
  function express(): Application;
  namespace express {
    function json(): Handler;
  }
  export = express;
}
