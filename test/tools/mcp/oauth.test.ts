/**
 * Goal: a server behind OAuth is reached with an authentication provider of the SDK. Method: a server that refuses
 * requests without a token and names its authorization server, and the SDK's provider of client credentials.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { Readable } from 'node:stream';
import { ClientCredentialsProvider } from '@modelcontextprotocol/client';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { freePort } from '../../support/processes.ts';
import { servicesKit, textOf } from './support.ts';

const serving = servicesKit();
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

test('a refused request leads to a token, and the call is answered with it', async () => {
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const asked: string[] = [];
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'guarded', version: '1.0.0' });
    server.registerTool('who', { inputSchema: z.object({}) }, (_input, context) => ({
      content: [{ type: 'text', text: context.http?.req?.headers.get('authorization') ?? 'no header' }],
    }));
    return server;
  });
  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith('/.well-known/oauth-protected-resource')) {
      return Response.json({ resource: `${origin}/mcp`, authorization_servers: [origin] });
    }
    if (pathname.startsWith('/.well-known/oauth-authorization-server')) {
      return Response.json({
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        response_types_supported: ['code'],
        grant_types_supported: ['client_credentials'],
        token_endpoint_auth_methods_supported: ['client_secret_basic'],
      });
    }
    if (pathname === '/token') {
      asked.push(await request.text());
      return Response.json({ access_token: 'issued', token_type: 'Bearer', expires_in: 3_600 });
    }
    if (request.headers.get('authorization') === 'Bearer issued') return await handler.fetch(request);
    const challenge = `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`;
    return new Response('no token', { status: 401, headers: { 'www-authenticate': challenge } });
  };
  const server = createServer(async (incoming, outgoing) => {
    const body = incoming.method === 'POST' ? { body: Readable.toWeb(incoming), duplex: 'half' } : {};
    const { method = 'GET', url = '/', headers } = incoming;
    const init = { method, headers, ...body } as RequestInit;
    const response = await answer(new Request(`${origin}${url}`, init));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.body === null) outgoing.end();
    else
      Readable.fromWeb(response.body as never)
        .on('error', () => outgoing.destroy())
        .pipe(outgoing);
  }).listen(port, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  const authProvider = new ClientCredentialsProvider({
    clientId: 'troupe',
    clientSecret: 'hush',
    expectedIssuer: origin,
  });
  const { call } = await serving({ s: { url: `${origin}/mcp`, authProvider } });
  expect(await textOf(call('who'))).toBe('Bearer issued');
  expect(asked).toEqual([expect.stringContaining('grant_type=client_credentials')]);
});
