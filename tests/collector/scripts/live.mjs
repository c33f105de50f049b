// One browser client in a real collector's survey, to its end: prints everything it said.
import { Client, MemoryStore } from "./client.js";

const [url, bits] = [process.argv[2], JSON.parse(process.argv[3])];
const client = await Client.join(url, { store: new MemoryStore() });
while (!client.finished) {
  const round = client.roundAt(client.now());
  await client.report(bits[Math.min(Math.max(round, 0), bits.length - 1)]);
  await new Promise((done) => setTimeout(done, 50));
}
const { flips, lost, ticket } = client.state;
console.log(JSON.stringify({ flips, lost, ticket, reports: client.reports() }));
