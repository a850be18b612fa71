/**
 * `slow-line <socket> <ms>`: a line to a database that delays each request by some milliseconds, as a network and a
 * real device do. In a separate process, so that the measured one does not pay for it. Prints its port.
 */
import { type AddressInfo, connect, createServer } from 'node:net';

const [path = '', delayMs = '0'] = process.argv.slice(2);
const server = createServer((client) => {
  const far = connect(path);
  client.setNoDelay(true);
  client.on('data', (bytes) => {
    setTimeout(() => far.write(bytes), Number(delayMs));
  });
  far.pipe(client);
  client.on('close', () => far.destroy());
  far.on('close', () => client.destroy());
  client.on('error', () => undefined);
  far.on('error', () => undefined);
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
// This process ends when the process that started it closes its input or dies.
process.stdin.on('end', () => process.exit(0)).resume();
